"""`/v1/explain` on a real port, the merging of answers, and the call through all layers."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from braid import problems
from braid.config import Settings, load
from braid.content import Content
from braid.matching.explanation import MatchExplanation
from braid.messages import Explain, Explained, Send
from braid.topology import Configuration
from services.connpoint.door import EXPLAINED_IDS_MAX
from services.connpoint.explaining import Explaining
from services.connpoint.questions import Questions
from tests.service.fake_door import Served, problem_of
from tests.service.in_process import client_of, in_process_cluster
from tests.service.zookeeper_fixture import ZooKeeperServer

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def subscribed(served: Served, **subscription: Any) -> str:
    id: str = (await served.client.post("/v1/subscriptions", json=subscription)).json()["id"]
    return id


async def explained(served: Served, **body: Any) -> dict[str, Any]:
    answer = await served.client.post("/v1/explain", json=body)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    msgspec.convert(document, MatchExplanation)
    return document


async def test_what_a_publication_would_match(served: Served) -> None:
    high = await subscribed(served, filter="value > 40")
    low = await subscribed(served, filter="value < 50")
    publication = {"attributes": {"value": 41}}
    assert await explained(served, publication=publication) == {"matches": [high, low], "count": 2}
    publication = {"attributes": {"value": 40}}
    assert await explained(served, publication=publication) == {"matches": [low], "count": 1}
    assert await explained(served, publication={}) == {"matches": [], "count": 0}
    assert served.door.publish_calls == 0


async def test_why_one_subscription_does_not_match(served: Served) -> None:
    id = await subscribed(served, filter="value > 40")
    other = await subscribed(served)
    assert await explained(served, publication={"attributes": {"value": 12}}, subscription=id) == {
        "matches": [other],
        "count": 1,
        "explanation": {
            "subscription": id,
            "matches": False,
            "failed": ["filter"],
            "parts": [
                {
                    "part": "filter",
                    "holds": False,
                    "wants": "value > 40",
                    "reasons": ["value > 40: value is 12"],
                    "filter": {"text": "value > 40", "holds": False, "saw": "value is 12", "values": {"value": 12}},
                }
            ],
        },
    }
    expired = await explained(served, publication={"attributes": {"value": 41}, "expires": "-1s"}, subscription=id)
    assert expired["count"] == 0
    assert expired["explanation"]["failed"] == ["expires"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ("{", 400, None),
        ("[]", 422, "$"),
        ("{}", 422, "$.publication"),
        ('{"publication":[]}', 422, "$.publication"),
        ('{"publication":{},"subscriber":"x"}', 422, "$.subscriber"),
        ('{"publication":{},"subscription":7}', 422, "$.subscription"),
        ('{"publication":{},"subscription":""}', 422, "$.subscription"),
        ('{"publication":{"attribute":{}}}', 422, "$.publication.attribute"),
        ('{"publication":{"attributes":{"a":1,"b":[]}}}', 422, "$.publication.attributes.b"),
        ('{"publication":{"attributes":{"n":99999999999999999999}}}', 422, "$.publication.attributes.n"),
        ('{"publication":{"expires":"soon"}}', 422, "$.publication.expires"),
        ('{"publication":{"topic":"a//b"}}', 422, "$.publication.topic"),
        ('{"publication":{"data":"' + "x" * 300_000 + '"}}', 413, "$.publication"),
        ('{"publication":{},"subscription":"s-unknown"}', 404, None),
    ],
)
async def test_wrong_questions(served: Served, body: str, status: int, field: str | None) -> None:
    answer = await served.client.post("/v1/explain", content=body)
    assert problem_of(answer, status).get("field") == field


async def test_when_the_cluster_is_away(served: Served) -> None:
    served.door.explain_error = problems.unavailable("no matcher answered", retry_after_s=3)
    answer = await served.client.post("/v1/explain", json={"publication": {}})
    problem_of(answer, 503)
    assert answer.headers["retry-after"] == "3"


# Merging

CONFIGURATION = Configuration(4, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",))
MATCHERS = 2  # whom the access point asked, as it says in each question


class Asked:
    """The connection point's side of the call, and matchers that answer as a test says."""

    def __init__(self, settings: Settings, *answers: tuple[list[str], int, bytes]) -> None:
        self.questions = Questions(settings.api.request_timeout_s, self.perform)
        self.questions.on_configuration(CONFIGURATION)
        self.explaining = Explaining("connpoint-1", settings, self.questions)
        self.answers = answers
        self.asked: list[Explain] = []

    def perform(self, sends: list[Send]) -> None:
        ((to, (question,)),) = [(send.to, send.messages) for send in sends]
        assert to == "accesspoint-1"
        self.asked.append(question)
        for number, answer in enumerate(self.answers, 1):
            message = Explained(
                question.epoch, question.ref, question.connpoint, f"matcher-{number}", *answer, asked=MATCHERS
            )
            asyncio.get_running_loop().call_soon(self.explaining.on_explained, message)


async def test_answers_of_all_matchers_are_merged() -> None:
    asked = Asked(Settings(), (["s-1", "s-4"], 2, b""), (["s-2"], 1, b'{"subscription":"s-2"}'))
    found = await asked.explaining.explain(Content(id="a", topic="t"), "s-2")
    assert (found.ids, found.count, found.explanation) == (["s-1", "s-2", "s-4"], 3, b'{"subscription":"s-2"}')
    assert [(q.epoch, q.connpoint, q.content, q.id, q.limit) for q in asked.asked] == [
        (4, "connpoint-1", b'{"id":"a","topic":"t"}', "s-2", EXPLAINED_IDS_MAX)
    ]


async def test_the_smallest_ids_are_kept_and_all_are_counted() -> None:
    odd, even = ([f"s-{number:04}" for number in range(start, 2_000, 2)] for start in (1, 0))
    asked = Asked(Settings(), (odd, 7_000, b""), (even, 5_000, b""))
    found = await asked.explaining.explain(Content(), "")
    assert found.ids == [f"s-{number:04}" for number in range(EXPLAINED_IDS_MAX)]
    assert (found.count, found.explanation) == (12_000, b"")


async def test_a_subscription_that_no_matcher_keeps_is_unknown() -> None:
    asked = Asked(Settings(), ([], 0, b""), ([], 0, b""))
    with pytest.raises(problems.Problem, match="there is no subscription 's-9'") as raised:
        await asked.explaining.explain(Content(), "s-9")
    assert raised.value.status == 404


async def test_an_answer_of_one_matcher_is_not_enough() -> None:
    settings = load(overrides={"api": {"request_timeout_s": 0.05}}).settings
    asked = Asked(settings, (["s-1"], 1, b""))
    with pytest.raises(problems.Problem, match="did not answer in time") as raised:
        await asked.explaining.explain(Content(), "")
    assert raised.value.status == 503


async def test_answers_of_two_epochs_make_no_whole() -> None:
    """The matchers of one epoch have each subscription once; those of two may have one twice, or not at all."""
    asked_with: list[int] = []
    questions = Questions(5.0, lambda sends: asked_with.append(sends[0].messages[0][1]))
    questions.on_configuration(CONFIGURATION)
    asking = asyncio.create_task(questions.ask(0, lambda epoch, ref: (epoch, ref)))
    await asyncio.sleep(0)
    (ref,) = asked_with

    def answer(epoch: int, matcher: str, asked: int) -> Explained:
        message = Explained(epoch, ref, "connpoint-1", matcher, [], 0, asked=asked)
        questions.on_answer(ref, matcher, message, asked)
        return message

    answer(4, "matcher-1", 2)
    answer(5, "matcher-2", 3)
    answer(4, "matcher-1", 2)
    answer(5, "matcher-3", 3)
    await asyncio.sleep(0)
    assert not asking.done()
    last = answer(5, "matcher-1", 3)
    answer(4, "matcher-2", 2)
    answers = await asking
    assert [found.epoch for found in answers] == [5, 5, 5]
    assert last in answers


async def test_a_publication_that_is_wrong_is_not_asked_about() -> None:
    asked = Asked(Settings())
    with pytest.raises(problems.Problem, match="needs a name"):
        await asked.explaining.explain(Content(attributes={"": 1}), "")
    assert asked.asked == []


# Through all layers


@pytest.mark.slow
async def test_through_all_layers(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    async with in_process_cluster(zookeeper.hosts, tmp_path) as cluster, client_of(cluster) as http:
        ids = {}
        for filter in ("price > 40", "price < prev(price)"):
            ids[filter] = (await http.post("/v1/subscriptions", json={"filter": filter})).json()["id"]
        first = {"topic": "shares/acme", "attributes": {"price": 41}}

        async def ask(publication: dict[str, Any], subscription: str) -> MatchExplanation:
            body = {"publication": publication, "subscription": ids[subscription]}
            answer = await http.post("/v1/explain", json=body)
            assert answer.status_code == 200, answer.text
            return msgspec.json.decode(answer.content, type=MatchExplanation)

        for _ in range(2):  # asking twice is not publishing: the second question has no previous publication either
            found = await ask(first, "price < prev(price)")
            assert (found.matches, found.count) == ([ids["price > 40"]], 1)
            assert found.explanation is not None
            assert found.explanation.parts[0].reasons == [
                "price < prev(price): price is 41; prev(price) is missing: of its topic, "
                "no publication before this one is remembered"
            ]
        assert (await http.post("/v1/publications", json=first)).status_code == 202
        async with asyncio.timeout(20):
            while (found := await ask(first | {"attributes": {"price": 40}}, "price < prev(price)")).count == 0:
                await asyncio.sleep(0.05)
        assert found.matches == [ids["price < prev(price)"]]
        assert found.explanation is not None
        assert found.explanation.matches
        began = time.monotonic()
        answer = await http.post("/v1/explain", json={"publication": {}, "subscription": "s-unknown"})
        problem_of(answer, 404)
        assert time.monotonic() - began < cluster.settings.api.request_timeout_s
