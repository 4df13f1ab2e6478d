"""What a filter saw in a publication: its tree with a verdict and the values at every node, and who is to blame."""

from collections.abc import Iterator, Mapping

import msgspec

from braid.filters import And, Comparison, Exists, Filter, In, Not, Or, Predicate, Value, evaluate
from braid.filters.expressions import Previous, previous_terms
from braid.filters.literals import kind_of
from braid.filters.nodes import Between, ComparisonWithPrevious
from braid.matching.explanation import FilterStep, Seen
from braid.matching.meaning import Publication, previous_of

_SHOWN_CHARACTERS_MAX = 200  # of a value; an explanation does not repeat a whole publication at every predicate
# What was published is remembered only from when a subscription looks back to it, and not forever.
_NOTHING_REMEMBERED = "of its topic, no publication before this one is remembered"
_ARTICLES = {"string": "a string", "number": "a number", "boolean": "a boolean"}


def explain_filter(node: Filter, publication: Publication, previous: Mapping[str, Value] | None) -> FilterStep:
    """`previous` as in `accepts`."""
    match node:
        case And(parts):
            steps = [explain_filter(part, publication, previous) for part in parts]
            return FilterStep(text="and", holds=all(step.holds for step in steps), steps=steps)
        case Or(parts):
            steps = [explain_filter(part, publication, previous) for part in parts]
            return FilterStep(text="or", holds=any(step.holds for step in steps), steps=steps)
        case Not(operand):
            step = explain_filter(operand, publication, previous)
            return FilterStep(text="not", holds=not step.holds, steps=[step])
        case _:
            before = previous_of(publication, previous)
            return FilterStep(
                text=str(node),
                holds=evaluate(node, publication.attributes, before),
                saw="; ".join(_remarks(node, publication, before)),
                values=_values(node, publication.attributes, before or {}),
            )


def blamed(step: FilterStep, wanted: bool = True) -> Iterator[FilterStep]:
    """The predicates because of which the step is not as wanted: below a `not` those that hold."""
    if step.holds == wanted:
        return
    if not step.steps:
        yield step
    for below in step.steps:
        yield from blamed(below, wanted != (step.text == "not"))


def _remarks(predicate: Predicate, publication: Publication, previous: Mapping[str, Value] | None) -> Iterator[str]:
    value = publication.attributes.get(predicate.attribute)
    if value is None:
        yield f"{predicate.attribute} is missing"
    else:
        wanted, kind = _wanted_kinds(predicate), kind_of(value)
        if wanted and kind not in wanted:
            expected = " or ".join(_ARTICLES[each] for each in sorted(wanted))
            yield f"{predicate.attribute} is {_shown(value)}, {_ARTICLES[str(kind)]}, not {expected}"
        else:
            yield f"{predicate.attribute} is {_shown(value)}"
    for term in _previous_of(predicate):
        if previous is None:
            why = _NOTHING_REMEMBERED if publication.topic else "the publication has no topic"
            yield f"{term} is missing: {why}"
        elif term.attribute not in previous:
            yield f"{term} is missing: the publication before had none, or it was not yet looked at"
        else:
            yield f"{term} is {_shown(previous[term.attribute])}"


def _values(predicate: Predicate, attributes: Mapping[str, Value], previous: Mapping[str, Value]) -> dict[str, Seen]:
    values = {predicate.attribute: _shortened(attributes.get(predicate.attribute))}
    return values | {str(term): _shortened(previous.get(term.attribute)) for term in _previous_of(predicate)}


def _wanted_kinds(predicate: Predicate) -> set[str]:
    """The types that the predicate can be true for; none when it takes any."""
    match predicate:
        case Exists():
            return set()
        case Comparison(_, _, literal) | Between(_, literal, _):
            return {str(kind_of(literal))}
        case In(_, literals):
            return {str(kind_of(literal)) for literal in literals}
        case ComparisonWithPrevious(_, _, expression):
            return set() if isinstance(expression, Previous) else {"number"}
        case _:
            return {"string"}


def _previous_of(predicate: Predicate) -> list[Previous]:
    """Each `prev(...)` of the predicate once, in the order it is written."""
    if not isinstance(predicate, ComparisonWithPrevious):
        return []
    return list(dict.fromkeys(previous_terms(predicate.expression)))


def _shown(value: Value) -> str:
    """As it is written in a filter."""
    short = _shortened(value)
    if isinstance(short, str):
        return "'" + short.replace("'", "''") + "'"
    return msgspec.json.encode(short).decode()


def _shortened(value: Seen) -> Seen:
    if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS_MAX:
        return value[:_SHOWN_CHARACTERS_MAX] + "…"
    return value
