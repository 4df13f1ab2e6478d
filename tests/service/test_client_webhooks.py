"""The client and `braid webhook` before the real interface: making webhooks, looking at them, replaying."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

import braid as library
from braid.client import BraidError, DeadLetter, Replayed
from braid.deliver import Webhook
from services.connpoint import door as doors
from tests.service.cli_runner import braid
from tests.service.fake_door import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADDRESS = "https://example.com/hook"
AT_S = 1_777_636_800.0  # 2026-05-01T12:00:00Z
LETTERS = [
    doors.DeadLetter(
        id="msg_1",
        at_s=AT_S,
        reason="failed 20 times; last: answered 503",
        attempts=20,
        publications=["p-1", "p-2"],
    ),
    doors.DeadLetter(
        id="msg_2", at_s=AT_S + 1, reason="refused 3 times; last: answered 400", attempts=3, publications=["p-3"]
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture
def served(shared: Served) -> Served:
    shared.door.reset()
    return shared


def url_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


async def test_one_is_made_found_changed_and_removed(served: Served) -> None:
    async with library.Client(url_of(served), subscriber="alarms") as client:
        made = await client.webhooks.subscribe(ADDRESS, "value > 40", words=["flood"], until="+10m")
        assert (made.subscriber, made.connpoint, made.url) == ("alarms", "connpoint-1", ADDRESS)
        assert made.secret.startswith("whsec_")
        assert made.secret not in repr(made)
        assert (made.wants["filter"], made.wants["words"]) == ("value > 40", ["flood"])
        served.door.delivering = replace(
            served.door.delivering, state="pausing", waiting=7, next_attempt_s=AT_S, last_error="answered 503"
        )
        found = await client.webhooks.find(made.id)
        assert (found.secret, found.url) == ("", ADDRESS)
        assert found.delivery is not None
        assert (found.delivery.state, found.delivery.waiting, found.delivery.last_error) == (
            "pausing",
            7,
            "answered 503",
        )
        assert found.delivery.next_attempt == datetime(2026, 5, 1, 12, tzinfo=UTC)
        assert [one.id for one in await client.webhooks.all()] == [made.id]
        assert (await client.webhooks.change(made.id, url=f"{ADDRESS}/2")).secret == ""
        rotated = await client.webhooks.change(made.id, secret="")
        assert rotated.url == f"{ADDRESS}/2"
        assert rotated.secret not in ("", made.secret)
        assert rotated.secret_before_until is not None
        assert (await client.webhooks.change(made.id, secret=made.secret)).secret == ""
        await client.webhooks.remove(made.id)
        assert await client.webhooks.all() == []
        with pytest.raises(BraidError, match="there is no subscription"):
            await client.webhooks.remove(made.id)


async def test_the_secret_of_the_caller_and_the_past(served: Served) -> None:
    secret = "whsec_" + "A" * 32
    async with library.Client(url_of(served)) as client:
        await client.publish({"attributes": {"value": 41}})
        made = await client.webhooks.subscribe(ADDRESS, "value > 40", secret=secret, from_="-10m")
        assert made.secret == ""
        assert made.past == library.Past(publications=1, complete=True)
        assert made.subscriber
        with pytest.raises(BraidError) as refused:
            await client.webhooks.subscribe("nowhere")
        assert refused.value.field == "$.deliver.webhook.url"


async def test_dead_letters_are_listed_and_replayed(served: Served) -> None:
    async with library.Client(url_of(served)) as client:
        made = await client.webhooks.subscribe(ADDRESS)
        served.door.dead_letters = list(LETTERS)
        first, second = await client.webhooks.dead_letters(made.id)
        assert first == DeadLetter(
            id="msg_1",
            at=datetime(2026, 5, 1, 12, tzinfo=UTC),
            reason="failed 20 times; last: answered 503",
            attempts=20,
            publications=["p-1", "p-2"],
        )
        assert await client.webhooks.dead_letters(made.id, limit=1) == [first]
        assert await client.webhooks.replay(made.id, [second.id]) == Replayed(1, 1)
        assert await client.webhooks.replay(made.id) == Replayed(1, 2)
        assert await client.webhooks.replay(made.id) == Replayed(0, 0)


async def test_one_that_is_delivered_to_a_topic_is_no_webhook(served: Served) -> None:
    body = {"filter": "value > 40", "deliver": {"kafka": {"topic": "alarms"}}}
    topic = (await served.client.post("/v1/subscriptions", json=body)).json()["id"]
    async with library.Client(url_of(served)) as client:
        made = await client.webhooks.subscribe(ADDRESS)
        assert [one.id for one in await client.webhooks.all()] == [made.id]
        with pytest.raises(BraidError, match="it is delivered to a topic of Kafka"):
            await client.webhooks.find(topic)


async def test_a_subscription_without_a_webhook_is_none(served: Served) -> None:
    plain = (await served.client.post("/v1/subscriptions", json={"filter": "value > 40"})).json()["id"]
    async with library.Client(url_of(served)) as client:
        assert await client.webhooks.all() == []
        with pytest.raises(BraidError, match="has no webhook"):
            await client.webhooks.find(plain)
    done = await braid(url_of(served), "webhook", "show", plain)
    assert (done.exit_code, f"{plain} has no webhook" in done.stderr) == (1, True)


async def test_sub_with_a_webhook_says_the_id_and_the_secret(served: Served) -> None:
    done = await braid(url_of(served), "sub", "value > 40", "--webhook", ADDRESS, "--subscriber", "alarms")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"a-1 is posted to {ADDRESS}"
    assert lines[1].startswith("  secret whsec_")
    assert served.door.records["a-1"].subscriber == "alarms"
    done = await braid(url_of(served), "sub", "--webhook", ADDRESS, "--from", "-10m", "--json")
    made = json.loads(done.stdout)
    assert (made["id"], made["url"], made["past"]) == ("a-2", ADDRESS, {"publications": 0, "complete": True})
    assert made["secret"].startswith("whsec_")


async def test_a_secret_need_not_stand_in_the_arguments(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", secret_of("b"))
    (tmp_path / "secret").write_text(f"{secret_of('c')}\n")
    sub = ["sub", "--webhook", ADDRESS]
    for options, expected in (
        ([*sub, "--secret", "-"], "a"),
        ([*sub, "--secret", "env:HOOK_SECRET"], "b"),
        ([*sub, "--secret", f"@{tmp_path / 'secret'}"], "c"),
        (["webhook", "change", "a-1", "--secret", "env:HOOK_SECRET"], "b"),
        (["webhook", "change", "a-1", "--secret", "-"], "a"),
    ):
        done = await braid(url_of(served), *options, input=f"{secret_of('a')}\n")
        assert (done.exit_code, done.stderr, secret_of(expected) in done.stdout) == (0, "", False)
        id = options[2] if options[0] == "webhook" else f"a-{len(served.door.records)}"
        deliver = served.door.records[id].deliver
        assert isinstance(deliver, Webhook)
        assert deliver.secret == secret_of(expected)


def secret_of(letter: str) -> str:
    return f"whsec_{40 * letter}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["sub", "--webhook", ADDRESS, "--secret", "-"], "there is no secret in standard input"),
        (["sub", "--webhook", ADDRESS, "--secret", "env:NOBODY"], "no secret in the environment variable NOBODY"),
        (["webhook", "change", "a-1", "--secret", "@/nowhere"], "/nowhere cannot be read: No such file"),
        (["sub", "--secret", "x"], "--secret needs the --webhook"),
        (["sub", "--webhook", ADDRESS, "--distinct"], "--distinct and --count"),
        (["sub", "--webhook", ADDRESS, "--count", "3"], "--distinct and --count"),
        (["webhook", "change", "a-1"], "nothing to change"),
        (["webhook", "change", "a-1", "--secret", "x", "--new-secret"], "exclude each other"),
        (["webhook", "change", "a-1", "--secret", ""], "--new-secret has one made up"),
    ],
)
async def test_what_does_not_go_together_is_told(served: Served, options: list[str], message: str) -> None:
    done = await braid(url_of(served), *options)
    assert (done.exit_code, message in done.stderr) == (2, True)
    assert served.door.records == {}


async def test_show_and_list(served: Served) -> None:
    assert "no subscription has a webhook" in (await braid(url_of(served), "webhook", "list")).stdout
    await braid(url_of(served), "sub", "value > 40", "--webhook", ADDRESS, "--subscriber", "alarms")
    served.door.delivering = replace(
        served.door.delivering,
        state="pausing",
        waiting=120,
        waiting_bytes=31_000,
        attempts=3,
        failures=3,
        next_attempt_s=AT_S,
        last_failure_s=AT_S,
        last_error="answered 503",
        delivered=5_120,
        dead_letters=4,
    )
    shown = (await braid(url_of(served), "webhook", "show", "a-1")).stdout.splitlines()
    assert shown[:2] == [f"a-1 is posted to {ADDRESS}", "  of alarms, delivered by connpoint-1"]
    assert "  filter value > 40" in shown
    assert "  pausing; attempt 4 in 0 s" in shown
    assert "  5120 arrived, 120 wait (31000 bytes)" in shown
    assert "  4 in dead letters, 0 dropped" in shown
    assert any(line.endswith("3 in a row: answered 503") for line in shown)
    done = await braid(url_of(served), "webhook", "show", "a-1", "--json")
    assert json.loads(done.stdout)["delivery"]["dead_letters"] == 4
    listed = (await braid(url_of(served), "webhook", "list")).stdout.splitlines()
    assert listed[1].split() == ["a-1", "alarms", "connpoint-1", ADDRESS]
    done = await braid(url_of(served), "webhook", "list", "--subscriber", "alarms", "--json")
    assert json.loads(done.stdout)["id"] == "a-1"
    assert (await braid(url_of(served), "webhook", "list", "--subscriber", "others", "--json")).stdout == ""


async def test_dead_letters_change_and_remove_at_the_command_line(served: Served) -> None:
    await braid(url_of(served), "sub", "--webhook", ADDRESS)
    assert "no dead letters" in (await braid(url_of(served), "webhook", "dead-letters", "a-1")).stdout
    served.door.dead_letters = list(LETTERS)
    lines = (await braid(url_of(served), "webhook", "dead-letters", "a-1")).stdout.splitlines()
    assert "msg_1  failed 20 times; last: answered 503  2 notifications" in lines[0]
    done = await braid(url_of(served), "webhook", "dead-letters", "a-1", "--limit", "1", "--json")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["msg_1"]
    done = await braid(url_of(served), "webhook", "replay", "a-1", "msg_2", "--json")
    assert json.loads(done.stdout) == {"requests": 1, "notifications": 1}
    done = await braid(url_of(served), "webhook", "replay", "a-1", "msg_2")
    assert (done.exit_code, "1 of 1 are no dead letters of a-1" in done.stderr) == (1, True)
    done = await braid(url_of(served), "webhook", "replay", "a-1")
    assert done.stdout == "1 requests with 2 notifications are tried again\n"
    done = await braid(url_of(served), "webhook", "change", "a-1", "--url", f"{ADDRESS}/2", "--new-secret", "--json")
    changed = json.loads(done.stdout)
    assert (changed["url"], changed["secret"][:6]) == (f"{ADDRESS}/2", "whsec_")
    done = await braid(url_of(served), "webhook", "change", "a-1", "--url", ADDRESS)
    assert done.stdout.splitlines()[0] == f"a-1 is posted to {ADDRESS}"
    assert (await braid(url_of(served), "webhook", "remove", "a-1")).stdout == "a-1 is ended\n"
    done = await braid(url_of(served), "webhook", "show", "a-1")
    assert (done.exit_code, "braid webhook list shows" in done.stderr) == (1, True)
