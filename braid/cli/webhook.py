"""`braid webhook`: how subscriptions that are posted to an address stand, and their dead letters."""

import sys
from collections.abc import Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from braid.cli.running import Failure, examples, new_client, run
from braid.cli.secret import secret_option
from braid.cli.webhook_lines import address_lines, delivery_lines, letter_line, part_lines

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

_ID = "a-7e8af29c68efe305a26c"
EXAMPLES = examples(
    'braid sub "value > 40" --webhook https://example.com/hooks/braid',
    "braid webhook list",
    f"braid webhook show {_ID}",
    f"braid webhook dead-letters {_ID}",
    f"braid webhook replay {_ID}",
)
LIST_EXAMPLES = examples("braid webhook list", "braid webhook list --subscriber alarms --json | jq -r .id")
SHOW_EXAMPLES = examples(f"braid webhook show {_ID}", f"braid webhook show {_ID} --json | jq .delivery.waiting")
DEAD_EXAMPLES = examples(
    f"braid webhook dead-letters {_ID}", f"braid webhook dead-letters {_ID} --limit 1000 --json | jq -r .reason"
)
REPLAY_EXAMPLES = examples(
    f"braid webhook replay {_ID}", f"braid webhook replay {_ID} msg_8f2c9a1e4b7d6c5f0a3b2e1d --json"
)
CHANGE_EXAMPLES = examples(
    f"braid webhook change {_ID} --url https://example.com/hooks/other",
    f"braid webhook change {_ID} --new-secret",
    f"braid webhook change {_ID} --secret @secret.txt",
)
REMOVE_EXAMPLES = examples(f"braid webhook remove {_ID}")

Id = Annotated[str, typer.Argument(help="The id of the subscription; it begins with a-.")]
Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Lines = Annotated[bool, typer.Option("--json", help="One line of JSON for each.")]

webhook = typer.Typer(
    no_args_is_help=True, help="Look at subscriptions that are posted to an address, and repair them.", epilog=EXAMPLES
)


@webhook.command("list", epilog=LIST_EXAMPLES)
def list_all(
    context: typer.Context,
    subscriber: Annotated[str | None, typer.Option(help="Only those of this subscriber.")] = None,
    json: Lines = False,
) -> None:
    """Show which subscriptions have a webhook."""
    run(_list(context.obj, subscriber, json))


@webhook.command("show", epilog=SHOW_EXAMPLES)
def show(context: typer.Context, id: Id, json: Json = False) -> None:
    """Show how one stands: what waits, how the last attempts went, when the next one is due."""
    run(_show(context.obj, id, json))


@webhook.command("dead-letters", epilog=DEAD_EXAMPLES)
def dead_letters(
    context: typer.Context,
    id: Id,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many, the oldest.")] = 100,
    json: Lines = False,
) -> None:
    """Show the requests that were given up, the oldest first."""
    run(_dead_letters(context.obj, id, limit, json))


@webhook.command("replay", epilog=REPLAY_EXAMPLES)
def replay(
    context: typer.Context,
    id: Id,
    letters: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters; all when none is given.")] = None,
    json: Json = False,
) -> None:
    """Try dead letters once more, before whatever else waits. An endpoint that was disabled is enabled."""
    run(_replay(context.obj, id, letters or None, json))


@webhook.command("change", epilog=CHANGE_EXAMPLES)
def change(
    context: typer.Context,
    id: Id,
    *,
    url: Annotated[str | None, typer.Option(help="Another address.")] = None,
    secret: Annotated[str | None, secret_option("Another secret: whsec_ and base64 of 24 to 64 bytes.")] = None,
    new_secret: Annotated[bool, typer.Option("--new-secret", help="Have another secret made up.")] = False,
    json: Json = False,
) -> None:
    """Change the address or the secret; the secret before signs as well for a day. What waits is tried at once."""
    if secret is not None and new_secret:
        raise typer.BadParameter("--secret and --new-secret exclude each other")
    if secret == "":
        raise typer.BadParameter("--secret needs a secret; --new-secret has one made up")
    if url is None and secret is None and not new_secret:
        raise typer.BadParameter("nothing to change: give --url, --secret or --new-secret")
    run(_change(context.obj, id, url, "" if new_secret else secret, json))


@webhook.command("remove", epilog=REMOVE_EXAMPLES)
def remove(context: typer.Context, id: Id) -> None:
    """End the subscription; what waits for it, and its dead letters, are forgotten."""
    run(_remove(context.obj, id))


async def subscribe(
    urls: list[str], to: str, secret: str | None, parts: dict[str, Any], *, subscriber: str | None, as_json: bool
) -> None:
    """What `braid sub --webhook` does."""
    async with new_client(urls, subscriber=subscriber) as client:
        made = await client.webhooks.subscribe(to, secret=secret, **parts)
    if as_json:
        _print_json(made)
        return
    console = _console()
    for line in address_lines(made):
        console.print(line)
    if made.past is not None:
        more = "" if made.past.complete else "; there were more, and the oldest were left out"
        console.print(f"{made.past.publications} of the past come first{more}")
    console.print(f"[dim]braid webhook show {made.id} says how it stands[/]")


async def _list(urls: list[str], subscriber: str | None, as_json: bool) -> None:
    async with new_client(urls, subscriber=subscriber) as client:
        found = await client.webhooks.all()
    if as_json:
        for one in found:
            _print_json(one)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("id", "subscriber", "connection point", "address"):
        table.add_column(column, no_wrap=True)
    for one in found:
        table.add_row(one.id, one.subscriber, one.connpoint, one.url)
    _console().print(table if found else "[dim]no subscription has a webhook[/]")


async def _show(urls: list[str], id: str, as_json: bool) -> None:
    async with new_client(urls) as client:
        found = await _known(client.webhooks.find(id))
    if as_json:
        _print_json(found)
        return
    console = _console()
    for line in [*address_lines(found), *part_lines(found)]:
        console.print(line)
    if found.delivery is not None:
        for line in delivery_lines(found.delivery, datetime.now().astimezone()):
            console.print(line)
        if found.delivery.dead_letters:
            console.print(f"[dim]braid webhook dead-letters {found.id} lists them[/]")


async def _dead_letters(urls: list[str], id: str, limit: int, as_json: bool) -> None:
    async with new_client(urls) as client:
        letters = await _known(client.webhooks.dead_letters(id, limit))
    if as_json:
        for letter in letters:
            _print_json(letter)
        return
    console = _console()
    for letter in letters:
        console.print(letter_line(letter))
    if not letters:
        console.print("[dim]no dead letters[/]")
    elif len(letters) == limit:
        console.print(f"[dim]the oldest {limit}; there may be more, which --limit shows[/]")


async def _replay(urls: list[str], id: str, letters: list[str] | None, as_json: bool) -> None:
    async with new_client(urls) as client:
        replayed = await _known(client.webhooks.replay(id, letters))
    if letters and replayed.requests < len(set(letters)):
        missing = len(set(letters)) - replayed.requests
        raise Failure(f"{missing} of {len(set(letters))} are no dead letters of {id}; the others are tried again")
    if as_json:
        _print_json(replayed)
    else:
        _console().print(f"{replayed.requests} requests with {replayed.notifications} notifications are tried again")


async def _change(urls: list[str], id: str, url: str | None, secret: str | None, as_json: bool) -> None:
    async with new_client(urls) as client:
        changed = await _known(client.webhooks.change(id, url=url, secret=secret))
    if as_json:
        _print_json(changed)
        return
    for line in address_lines(changed):
        _console().print(line)


async def _remove(urls: list[str], id: str) -> None:
    async with new_client(urls) as client:
        await _known(client.webhooks.remove(id))
    _console().print(f"{id} is ended", markup=False)


async def _known(answer: Coroutine[Any, Any, T]) -> T:
    from braid.client.errors import BraidError

    try:
        return await answer
    except BraidError as error:
        if error.status == 404:
            raise Failure(f"{error.detail}; braid webhook list shows those that there are") from None
        raise


def _print_json(shown: object) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.encode(shown).decode() + "\n")


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)
