"""`/v1/subscriptions`: standing queries over plain HTTP."""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from braid.deliver import is_addressed, made_secret
from braid.problems import Problem
from braid.subscription import SubscriptionRecord, decode_subscription, decode_subscription_patch
from services.connpoint.door import Door, Past
from services.connpoint.http import openapi
from services.connpoint.http.bodies import BodyReader
from services.connpoint.http.decoding import decoded
from services.connpoint.http.delivery_shown import DeliveryShown, delivery_shown, unknown
from services.connpoint.http.forwarding import Home, forward, home_elsewhere
from services.connpoint.http.listing import listed
from services.connpoint.http.past_shown import PastShown, past_shown
from services.connpoint.http.subscribers import check_subscriber, generated_subscriber

LISTED_DEFAULT = 1_000
LISTED_MAX = 10_000


class WebhookShown(msgspec.Struct):
    url: str
    secret: Annotated[str, msgspec.Meta(description="only where this call made it up")] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    secret_before_until: (
        Annotated[str, msgspec.Meta(description="the secret before this one signs as well, until then")]
        | msgspec.UnsetType
    ) = msgspec.UNSET


class TopicShown(msgspec.Struct):
    topic: str
    key: str | msgspec.UnsetType = msgspec.UNSET


class DeliverShown(msgspec.Struct):
    """Where notifications go, when not over a connection of the subscriber; one of them."""

    webhook: WebhookShown | msgspec.UnsetType = msgspec.UNSET
    kafka: TopicShown | msgspec.UnsetType = msgspec.UNSET


class SubscriptionShown(msgspec.Struct, rename={"from_": "from"}):
    """A subscription as it is answered; what was not given is left out. `past` is only there when it is made."""

    id: str
    subscriber: str
    connpoint: str
    created: str
    filter: str | msgspec.UnsetType = msgspec.UNSET
    words: list[str] | msgspec.UnsetType = msgspec.UNSET
    topic: str | msgspec.UnsetType = msgspec.UNSET
    topic_scope: Annotated[str, msgspec.Meta(description="left out when it is 'both'")] | msgspec.UnsetType = (
        msgspec.UNSET
    )
    zone: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    from_: str | msgspec.UnsetType = msgspec.UNSET
    until: str | msgspec.UnsetType = msgspec.UNSET
    distinct: bool | msgspec.UnsetType = msgspec.UNSET
    temporary: bool | msgspec.UnsetType = msgspec.UNSET
    deliver: DeliverShown | msgspec.UnsetType = msgspec.UNSET
    delivery: DeliveryShown | msgspec.UnsetType = msgspec.UNSET
    past: PastShown | msgspec.UnsetType = msgspec.UNSET


class SubscriptionList(msgspec.Struct):
    """`truncated` stands there, and is true, when there are more than the limit."""

    subscriptions: list[SubscriptionShown]
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


def create_router(door: Door, bodies: BodyReader) -> APIRouter:
    router = APIRouter(tags=["subscriptions"])

    @router.post(
        "/v1/subscriptions",
        summary="Subscribe",
        status_code=201,
        response_class=Response,
        responses=openapi.answers(
            201,
            "Stored, and every publication from now on finds it",
            _SHOWN,
            _EXAMPLE_MADE,
            errors=(400, 413, 422, 429, 503),
        ),
        openapi_extra=openapi.json_body(openapi.reference("Subscription"), _EXAMPLE),
    )
    async def subscribe(request: Request) -> Response:
        """Without `subscriber` one is made up; it is in the answer.

        With a `from` in the past the subscriber is given what matched since then and has not expired, before anything
        newer. `past` in the answer says how many these are; they are not `complete` when there were more than
        `delivery.past_notifications_max`, and then the oldest are left out.

        With `deliver` notifications are sent to an address, and nobody has to be connected. A secret that is made up
        stands in this answer, and is never shown again.
        """
        given = decoded(await bodies.read_text(request), decode_subscription)
        check_subscriber(given.subscriber, door.settings.limits, "$.subscriber")
        subscriber = given.subscriber or generated_subscriber()
        record, past = await door.subscribe(given, subscriber=subscriber, temporary=False)
        location = f"/v1/subscriptions/{quote(record.id, safe='')}"
        secret = made_secret(given.deliver, record.deliver, is_new=True)
        return Response(_shown(record, past, secret), 201, {"Location": location}, "application/json")

    @router.get(
        "/v1/subscriptions",
        summary="The subscriptions of one subscriber, or all",
        response_class=Response,
        responses=openapi.answers(
            200,
            "Up to `limit` of them",
            openapi.reference("SubscriptionList"),
            {"subscriptions": [_EXAMPLE_SHOWN]},
            errors=(422, 503),
        ),
    )
    async def find_by_subscriber(
        subscriber: Annotated[str, Query(description="empty for all")] = "",
        limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = LISTED_DEFAULT,
    ) -> Response:
        found: list[SubscriptionRecord] = []
        async for page in door.find_by_subscriber(subscriber):
            found += page
            if len(found) > limit:
                break
        return listed("subscriptions", found, limit, SubscriptionRecord.public)

    @router.get(
        "/v1/subscriptions/{id}",
        summary="One subscription",
        response_class=Response,
        responses=openapi.answers(200, "The subscription", _SHOWN, _EXAMPLE_SHOWN, errors=(404, 503)),
    )
    async def find(id: str, request: Request) -> Response:
        """Of one with an address, `delivery` says how that stands."""
        record = await door.find(id)
        if record.deliver is None:
            return Response(_shown(record), media_type="application/json")
        home = home_elsewhere(door, request, record.home)
        if home is None:
            delivery = await delivery_shown(door, id)
        else:
            try:
                return await forward(door, request, home)
            except Problem as problem:
                delivery = unknown(problem)
        return Response(_shown(record, delivery=delivery), media_type="application/json")

    @router.patch(
        "/v1/subscriptions/{id}",
        summary="Change the filter, the window, the address, or move the zone; null removes a bound or the zone",
        response_class=Response,
        responses=openapi.answers(
            200, "The subscription as it is now", _SHOWN, _EXAMPLE_SHOWN, errors=(400, 404, 422, 503)
        ),
        openapi_extra=openapi.json_body(openapi.reference("SubscriptionPatch"), {"until": "+10m"}),
    )
    async def change(id: str, request: Request) -> Response:
        text = await bodies.read_text(request)
        patch = decoded(text, decode_subscription_patch)
        if patch.deliver is not msgspec.UNSET and (home := await _home_of(id, request)) is not None:
            return await forward(door, request, home, text.encode())
        record = await door.change(id, patch)
        secret = made_secret(patch.deliver, record.deliver, is_new=False)
        return Response(_shown(record, secret=secret), media_type="application/json")

    @router.delete(
        "/v1/subscriptions/{id}",
        summary="Unsubscribe",
        status_code=204,
        response_class=Response,
        responses=openapi.problem_answers(404, 503),
    )
    async def unsubscribe(id: str, request: Request) -> Response:
        if is_addressed(id) and (home := await _home_of(id, request)) is not None:
            return await forward(door, request, home)
        await door.unsubscribe(id)
        return Response(status_code=204)

    async def _home_of(id: str, request: Request) -> Home | None:
        """Elsewhere, and there: what waits for it is known only to that one."""
        home = home_elsewhere(door, request, (await door.find(id)).home)
        return home if home is not None and home.address else None

    return router


def _shown(
    record: SubscriptionRecord, past: Past | None = None, secret: str = "", delivery: DeliveryShown | None = None
) -> bytes:
    shown = record.public()
    if delivery is not None:
        shown["delivery"] = delivery
    if secret:
        shown["deliver"]["webhook"]["secret"] = secret
    if past is not None:
        shown["past"] = past_shown(past)
    return msgspec.json.encode(shown)


_SHOWN = openapi.reference("SubscriptionShown")
_EXAMPLE = {"filter": "pollutant = 'NO2' and value > 40", "from": "-10m", "subscriber": "dashboard-7"}
_EXAMPLE_SHOWN = {
    "id": "s-e021a9be7a73e69a3199",
    "subscriber": "dashboard-7",
    "connpoint": "connpoint-1",
    "filter": "pollutant = 'NO2' and value > 40",
    "from": "2026-05-01T11:50:00.000Z",
    "created": "2026-05-01T12:00:00.000Z",
}
_EXAMPLE_MADE = {**_EXAMPLE_SHOWN, "past": {"publications": 12, "complete": True}}
