"""Addresses of subscriptions where they enter: what is stored, what is shown, and what cannot be."""

import base64
from typing import Any

import msgspec
import pytest

from braid.anchors import placed
from braid.config import Limits
from braid.deliver import ROTATION_S, DeliverGiven, Topic, Webhook, is_addressed, made_secret, secret_bytes
from braid.problems import Problem
from braid.subscription import (
    SubscriptionRecord,
    apply_patch,
    check_subscription,
    decode_subscription,
    decode_subscription_patch,
)

NOW = 1_777_636_800.0
URL = "https://example.com/hook?tenant=7"
SECRET = "whsec_" + base64.b64encode(bytes(range(24))).decode()
KAFKA = {"kafka": {"topic": "alarms", "key": "station"}}
OTHER = "whsec_" + base64.b64encode(bytes(range(64))).decode()


def made(deliver: Any, **parts: Any) -> SubscriptionRecord:
    given = decode_subscription(msgspec.json.encode({"deliver": deliver, **parts}))
    return check_subscription(given, Limits(), NOW, id="s-1", subscriber="anna", home="c", temporary=False)


def changed(record: SubscriptionRecord, deliver: Any) -> SubscriptionRecord:
    patch = decode_subscription_patch(msgspec.json.encode({"deliver": deliver}))
    return apply_patch(record, patch, Limits(), NOW)


def problem_of(deliver: Any, **parts: Any) -> dict[str, Any]:
    with pytest.raises(Problem) as raised:
        made(deliver, **parts)
    return raised.value.document()


def test_a_webhook_is_stored_with_its_secret_and_shown_without_it() -> None:
    record = made({"webhook": {"url": URL, "secret": SECRET}})
    assert record.deliver == Webhook(URL, SECRET)
    assert record.public()["deliver"] == {"webhook": {"url": URL}}
    assert SECRET not in repr(record)
    assert secret_bytes(SECRET) == bytes(range(24))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=SubscriptionRecord) == record


def test_a_record_of_before_has_no_address() -> None:
    stored = msgspec.msgpack.encode(made({"webhook": {"url": URL}}))
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(stored)[:-1])
    assert msgspec.msgpack.decode(old, type=SubscriptionRecord).deliver is None


@pytest.mark.parametrize("webhook", [{"url": URL}, {"url": URL, "secret": None}])
def test_a_secret_is_made_up_and_shown_to_who_asked(webhook: dict[str, Any]) -> None:
    first, second = (made({"webhook": webhook}).deliver for _ in range(2))
    assert isinstance(first, Webhook)
    assert isinstance(second, Webhook)
    assert len(secret_bytes(first.secret)) == 32
    assert first.secret != second.secret
    given = msgspec.convert({"webhook": webhook}, DeliverGiven)
    assert made_secret(given, first, is_new=True) == first.secret


def test_a_secret_that_was_given_is_never_shown() -> None:
    given = msgspec.convert({"webhook": {"url": URL, "secret": SECRET}}, DeliverGiven)
    assert made_secret(given, Webhook(URL, SECRET), is_new=True) == ""
    assert made_secret(None, None, is_new=True) == ""
    only_url = msgspec.convert({"webhook": {"url": URL}}, DeliverGiven)
    assert made_secret(only_url, Webhook(URL, SECRET), is_new=False) == ""


def test_the_id_says_that_it_has_an_address() -> None:
    assert is_addressed(placed(made({"webhook": {"url": URL}})).id)
    assert is_addressed(placed(made({"kafka": {"topic": "alarms"}})).id)
    assert not is_addressed(placed(made(None)).id)


def test_another_url_keeps_the_secret() -> None:
    record = made({"webhook": {"url": URL, "secret": SECRET}})
    moved = changed(record, {"webhook": {"url": "http://example.com"}})
    assert moved.deliver == Webhook("http://example.com", SECRET)


def test_a_secret_that_is_replaced_signs_for_another_day() -> None:
    record = made({"webhook": {"url": URL, "secret": SECRET}})
    rotated = changed(record, {"webhook": {"secret": OTHER}})
    assert rotated.deliver == Webhook(URL, OTHER, SECRET, NOW + ROTATION_S)
    assert rotated.public()["deliver"]["webhook"] == {"url": URL, "secret_before_until": "2026-05-02T12:00:00.000Z"}
    again = changed(rotated, {"webhook": {"secret": None}}).deliver
    assert isinstance(again, Webhook)
    assert again.secret_before == OTHER
    assert (
        made_secret(msgspec.convert({"webhook": {"secret": None}}, DeliverGiven), again, is_new=False) == again.secret
    )


@pytest.mark.parametrize(
    ("deliver", "field", "told"),
    [
        ({}, "$.deliver", "expected where"),
        ({"webhook": {}}, "$.deliver.webhook.url", "expected the address"),
        ({"webhook": {"url": "ftp://example.com"}}, "$.deliver.webhook.url", "https://"),
        ({"webhook": {"url": "https://"}}, "$.deliver.webhook.url", "with a host"),
        ({"webhook": {"url": "https://a:70000/"}}, "$.deliver.webhook.url", "not an address"),
        ({"webhook": {"url": "https://[::1/"}}, "$.deliver.webhook.url", "not an address"),
        ({"webhook": {"url": "https://a:0/"}}, "$.deliver.webhook.url", "with a host"),
        ({"webhook": {"url": "https://anna:pw@a/"}}, "$.deliver.webhook.url", "signed instead"),
        ({"webhook": {"url": "https://a/#b"}}, "$.deliver.webhook.url", "'#'"),
        ({"webhook": {"url": "https://a/ b"}}, "$.deliver.webhook.url", "without spaces"),
        ({"webhook": {"url": "https://ä/"}}, "$.deliver.webhook.url", "ASCII"),
        ({"webhook": {"url": "https://a/\r\nx"}}, "$.deliver.webhook.url", "ASCII"),
        ({"webhook": {"url": "https://a/" + "x" * 2048}}, "$.deliver.webhook.url", "at most 2048"),
        ({"webhook": {"url": URL, "secret": "abc"}}, "$.deliver.webhook.secret", "whsec_"),
        ({"webhook": {"url": URL, "secret": "whsec_*"}}, "$.deliver.webhook.secret", "base64"),
        ({"webhook": {"url": URL, "secret": "whsec_YWJj"}}, "$.deliver.webhook.secret", "these are 3"),
        ({"kafka": {}}, "$.deliver.kafka.topic", "expected the topic"),
        ({"kafka": {"topic": ""}}, "$.deliver.kafka.topic", "letters, digits"),
        ({"kafka": {"topic": "a/b"}}, "$.deliver.kafka.topic", "letters, digits"),
        ({"kafka": {"topic": "alarms\n"}}, "$.deliver.kafka.topic", "letters, digits"),
        ({"kafka": {"topic": ".."}}, "$.deliver.kafka.topic", "letters, digits"),
        ({"kafka": {"topic": "x" * 250}}, "$.deliver.kafka.topic", "at most 249"),
        ({"kafka": {"topic": "alarms", "key": "x" * 257}}, "$.deliver.kafka.key", "at most 256"),
        ({"kafka": {"topic": "alarms"}, "webhook": {"url": URL}}, "$.deliver", "one of them"),
    ],
)
def test_what_cannot_be_used_is_told(deliver: Any, field: str, told: str) -> None:
    problem = problem_of(deliver)
    assert (problem["status"], problem["field"]) == (422, field)
    assert told in problem["detail"]


def test_what_is_distinct_goes_over_connections() -> None:
    assert problem_of({"webhook": {"url": URL}}, distinct=True)["field"] == "$.distinct"


def test_a_subscription_does_not_change_the_way_it_is_delivered() -> None:
    with pytest.raises(Problem, match="another one"):
        changed(made(None), {"webhook": {"url": URL}})
    with pytest.raises(Problem, match="at least one of"):
        changed(made({"webhook": {"url": URL}}), {"webhook": {}})
    for before, after in (({"webhook": {"url": URL}}, KAFKA), (KAFKA, {"webhook": {"url": URL}})):
        with pytest.raises(Problem, match="stays so"):
            changed(made(before), after)


def test_a_topic_is_stored_and_shown() -> None:
    record = made(KAFKA)
    assert record.deliver == Topic("alarms", "station")
    assert record.public()["deliver"] == KAFKA
    assert made({"kafka": {"topic": "alarms"}}).public()["deliver"] == {"kafka": {"topic": "alarms"}}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=SubscriptionRecord) == record
    assert made_secret(msgspec.convert(KAFKA, DeliverGiven), record.deliver, is_new=True) == ""


def test_another_topic_keeps_the_key_and_another_key_the_topic() -> None:
    record = made(KAFKA)
    assert changed(record, {"kafka": {"topic": "other"}}).deliver == Topic("other", "station")
    assert changed(record, {"kafka": {"key": "city"}}).deliver == Topic("alarms", "city")
    assert changed(record, {"kafka": {"key": ""}}).deliver == Topic("alarms")
    with pytest.raises(Problem, match="at least one of"):
        changed(record, {"kafka": {}})
