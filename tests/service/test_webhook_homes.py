"""Which connection point delivers a subscription with a webhook when its address is given again."""

import time

import pytest
from msgspec import UNSET, UnsetType

from braid.deliver import DeliverGiven, Webhook, WebhookGiven
from braid.subscription import SubscriptionPatch, SubscriptionRecord
from tests.core.webhook_cases import SECRET
from tests.service.test_giving import Stage

URL = "https://example.com/hook"


@pytest.mark.parametrize("url", [URL, "https://example.com/another"])
async def test_whoever_is_given_the_address_takes_it_over_from_a_home_that_is_gone(url: str) -> None:
    changed = await patched(url)
    assert changed.home == "connpoint-1"
    assert changed.deliver == Webhook(url, SECRET)


async def test_whoever_is_given_something_else_leaves_it_where_it_is() -> None:
    assert (await patched(UNSET)).home == "connpoint-2"


async def patched(url: str | UnsetType) -> SubscriptionRecord:
    """One of connpoint-2, changed at connpoint-1; as it is stored then."""
    stage = Stage()
    record = SubscriptionRecord("a-1", "anna", "connpoint-2", "", time.time(), deliver=Webhook(URL, SECRET))
    stage.matchers.stored[record.id] = record
    deliver = UNSET if url is UNSET else DeliverGiven(webhook=WebhookGiven(url=url))
    await stage.subscribing.change(record.id, SubscriptionPatch(filter="value > 40", deliver=deliver))
    stored = stage.matchers.stored[record.id]
    assert (record.id in stage.core.addressed) == (stored.home == "connpoint-1")
    return stored
