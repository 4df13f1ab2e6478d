"""The filter language of subscriptions: reading, writing and evaluating filters over attributes.

The language is defined in `docs/filters.md`. This package is pure: it knows nothing of subscriptions,
publications or the broker.
"""

from braid.filters.alternatives import MAX_ALTERNATIVES, Literal, alternatives
from braid.filters.errors import FilterError
from braid.filters.evaluator import evaluate, value_of
from braid.filters.expressions import MAX_EXPRESSION_NODES, Arithmetic, Expression, Negation, Previous
from braid.filters.json_form import from_json, to_json
from braid.filters.literals import Value
from braid.filters.nodes import (
    And,
    Between,
    Comparison,
    ComparisonWithPrevious,
    Contains,
    Exists,
    Filter,
    In,
    Not,
    Operator,
    Or,
    Predicate,
    Prefix,
    Suffix,
    attributes_before,
    uses_previous,
)
from braid.filters.parser import MAX_DEPTH, MAX_PREDICATES, parse
from braid.filters.printer import print_filter

__all__ = [
    "MAX_ALTERNATIVES",
    "MAX_DEPTH",
    "MAX_EXPRESSION_NODES",
    "MAX_PREDICATES",
    "And",
    "Arithmetic",
    "Between",
    "Comparison",
    "ComparisonWithPrevious",
    "Contains",
    "Exists",
    "Expression",
    "Filter",
    "FilterError",
    "In",
    "Literal",
    "Negation",
    "Not",
    "Operator",
    "Or",
    "Predicate",
    "Prefix",
    "Previous",
    "Suffix",
    "Value",
    "alternatives",
    "attributes_before",
    "evaluate",
    "from_json",
    "parse",
    "print_filter",
    "to_json",
    "uses_previous",
    "value_of",
]
