"""`braid explain`: what a publication would match, and what of one subscription fails."""

from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.inputs import read_all
from braid.cli.running import Failure, examples, new_client, run

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from braid.client import Explanation, FilterStep, MatchExplanation, PartExplained

EXAMPLES = examples(
    'braid explain \'{"attributes": {"pollutant": "NO2", "value": 12}}\'',
    "braid explain @reading.json --subscription s-e021a9be7a73e69a3199",
    "braid explain @reading.json --subscription s-e021a9be7a73e69a3199 --json | jq .explanation.failed",
)
_IDS_SHOWN_MAX = 20


def explain(
    context: typer.Context,
    publication: Annotated[str, typer.Argument(help="JSON, '-' for standard input, or @file.")],
    subscription: Annotated[
        str | None, typer.Option(help="Say of the subscription with this id which part fails, and why.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Show which subscriptions a publication would match, without publishing it."""
    run(_explain(context.obj, publication, subscription, json))


async def _explain(urls: list[str], source: str, subscription: str | None, as_json: bool) -> None:
    given = [document for batch in read_all([source]) for document in batch]
    if len(given) != 1:
        raise Failure(f"expected one publication, not {len(given)}")
    if subscription == "":
        raise Failure("--subscription needs an id; GET /v1/subscriptions lists all")
    async with new_client(urls) as client:
        from braid.client.errors import BraidError

        try:
            found = await client.explain(given[0], subscription)
        except BraidError as error:
            if subscription is not None and error.status == 404 and subscription in error.detail:
                raise Failure(f"{error.detail}; it may have ended, GET /v1/subscriptions lists all") from None
            raise
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(found))
    else:
        _show(found)


def _show(found: "MatchExplanation") -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    if found.explanation is not None:
        console.print(tree_of(found.explanation))
        console.print()
    others = f"{found.count} subscription{'' if found.count == 1 else 's'} would match"
    console.print(others if found.count else "no subscription would match")
    for id in found.matches[:_IDS_SHOWN_MAX]:
        console.print(f"  {id}", markup=False)
    if found.count > _IDS_SHOWN_MAX:
        console.print(f"  [dim]and {found.count - _IDS_SHOWN_MAX} more; --json shows up to 1000[/]")


def tree_of(explanation: "Explanation") -> "Tree":
    """The verdict, below it every part, below the filter its predicates with the values they saw."""
    from rich.text import Text
    from rich.tree import Tree

    verdict = ("matches", "bold green") if explanation.matches else ("does not match", "bold red")
    tree = Tree(Text.assemble((explanation.subscription, "bold"), " ", verdict))
    for part in explanation.parts:
        _add_part(tree, part)
    if not explanation.parts:
        tree.add(Text("it has no conditions, so it matches everything", "dim"))
    return tree


def _add_part(tree: "Tree", part: "PartExplained") -> None:
    from rich.text import Text

    line = _marked(part.holds).append(part.part, "bold").append(f"  {part.wants}")
    branch = tree.add(line)
    if part.filter is not None:
        _add_step(branch, part.filter)
        return
    for reason in part.reasons:
        branch.add(Text(reason, "red"))
    if part.saw and (part.holds or part.part == "words"):
        branch.add(Text.assemble(("saw ", "dim"), part.saw))


def _add_step(tree: "Tree", step: "FilterStep") -> None:
    line = _marked(step.holds).append(step.text)
    if step.saw:
        line.append(f"  {step.saw}", "dim")
    branch = tree.add(line)
    for below in step.steps:
        _add_step(branch, below)


def _marked(holds: bool) -> "Text":
    from rich.text import Text

    return Text.assemble(("✓ ", "green") if holds else ("✗ ", "red"))
