"""The client: subscribe, publish, and look at the cluster."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, cast

from braid.client.connection import Connection
from braid.client.conversation import Conversation
from braid.client.errors import BraidError, CallTimeout, ConnectionLost
from braid.client.explaining import explain
from braid.client.frames import Publication
from braid.client.history import KeptPublication, find_publications
from braid.client.ids import with_id
from braid.client.listing import alive_ids, list_subscriptions
from braid.client.options import PUBLISHER_HEADER, Options, checked_publisher, checked_url
from braid.client.parts import Instant, subscription_parts
from braid.client.rest import Rest
from braid.client.scaling import Scaling, find_scaling, list_scalings, scale
from braid.client.session import Session
from braid.client.states import OnState, State, log_state, logger
from braid.client.stream import Stream
from braid.client.tracing import Trace, trace
from braid.client.webhooks import Webhooks
from braid.matching.explanation import MatchExplanation


class Client:
    """One subscriber and publisher, over one WebSocket that is made again when it breaks.

        async with braid.Client("http://127.0.0.1:8080") as client:
            async with client.subscribe("value > 40") as stream:
                async for notification in stream:
                    print(notification.publication.attributes)

    What is promised while connections come and go:

    - A publication whose `publish` returned was accepted. When an answer is lost the publication is sent again with
      the same id, so the cluster may accept it twice; streams of this client drop what they already had by publication
      id, within the last `delivered_window` publications. Consumers that do not use this client have to do the same.
    - A `publish` that raises `CallTimeout` or `ConnectionLost` may have been accepted or not. It is safe to publish it
      again under the same id. Any other `BraidError` means that nothing of that call was accepted.
    - Calls are sent in the order they were made, again after a reconnect, so publications stay in order.
    - After a reconnect a stream goes on where it stopped, as long as the cluster still holds what was missed. Otherwise
      `on_state` is told of a `gap`. Subscriptions that the cluster no longer has are made again. They do not begin
      again: they ask for what was kept since ten seconds before this client last heard of the cluster, and what a
      stream had already is dropped by its id as above. `publications` finds what was kept besides.
    - A `subscriber` that is named keeps its subscriptions when the client dies without closing them, and if the answer
      to a `subscribe` was lost, one that no stream belongs to may be left: `subscriptions()` shows them. A client
      without a name makes one up, and leaves nothing behind. Only one connection of a subscriber is served at a time:
      a newer one ends the older client with `Replaced`.

    Parameters:

    - `urls`: one connection point or several; the next is tried when one cannot be reached or goes away.
    - `publisher`: publications of one publisher stay in order; without it this client is a publisher of its own.
    - `on_state`: called with every `State`, on the event loop; the same goes to the logger `braid.client`.
    - `connect_timeout_s`, `reconnect_timeout_s`: how long to try at first, and after a loss; 0 tries each once.
    - `call_timeout_s`: how long any call waits for its answer, reconnecting included.
    - `heartbeat_s`: a connection silent for so long is asked for a sign of life, and dropped after as long again.
    - `backoff_first_s`, `backoff_max_s`: pauses between attempts double from the first to the second, with jitter.
    - `publishes_in_flight_max`: further publishes wait.
    - `stream_buffer_max`: notifications that wait in a stream before the socket is no longer read; see `Stream`.
    - `delivered_window`: publication ids remembered against duplicates; 0 switches it off.
    - `message_bytes_max`: a longer message of the server ends the client with `ConnectionLost`.
    """

    def __init__(
        self,
        urls: str | Sequence[str] = "http://127.0.0.1:8080",
        *,
        subscriber: str | None = None,
        publisher: str | None = None,
        on_state: OnState | None = None,
        connect_timeout_s: float = 5.0,
        reconnect_timeout_s: float = 60.0,
        call_timeout_s: float = 30.0,
        heartbeat_s: float = 10.0,
        backoff_first_s: float = 0.1,
        backoff_max_s: float = 5.0,
        publishes_in_flight_max: int = 64,
        stream_buffer_max: int = 10_000,
        delivered_window: int = 100_000,
        message_bytes_max: int = 64 * 1024 * 1024,
    ) -> None:
        options = Options(
            connect_timeout_s=connect_timeout_s,
            reconnect_timeout_s=reconnect_timeout_s,
            call_timeout_s=call_timeout_s,
            heartbeat_s=heartbeat_s,
            backoff_first_s=backoff_first_s,
            backoff_max_s=backoff_max_s,
            publishes_in_flight_max=publishes_in_flight_max,
            stream_buffer_max=stream_buffer_max,
            delivered_window=delivered_window,
            message_bytes_max=message_bytes_max,
        )
        self._urls = [checked_url(url) for url in ([urls] if isinstance(urls, str) else urls)]
        if not self._urls:
            raise ValueError("expected at least one address of a connection point")
        self._options = options
        self._user_on_state = on_state
        self._temporary = subscriber is None
        self.subscriber = subscriber or f"client-{uuid.uuid4().hex}"
        self.publisher = checked_publisher(publisher or f"client-{uuid.uuid4().hex}")
        self._in_flight = asyncio.Semaphore(publishes_in_flight_max)
        headers = {PUBLISHER_HEADER: self.publisher}
        self._rest = Rest(self._urls_in_use_first, headers, call_timeout_s)
        self.webhooks = Webhooks(self._rest, "" if self._temporary else self.subscriber)
        session = Session(temporary=self._temporary, delivered_window=delivered_window)
        self._conversation = Conversation(session, options, self._tell, self._start)
        self._connection = Connection(
            self._urls,
            {"subscriber": self.subscriber, "temporary": "true" if self._temporary else "false"},
            headers,
            options,
            conversation=self._conversation,
            alive_ids=self._alive_ids,
            on_state=self._tell,
        )
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all streams and the connection; calls that still wait raise `ConnectionLost`."""
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.gather(*(stream.aclose() for stream in self._conversation.open_streams))
        finally:
            self._conversation.fail(ConnectionLost("the client was closed"))
            await self._connection.aclose()
            await self._rest.aclose()
        self._tell(State("closed"))

    def subscribe(
        self,
        filter: str | Mapping[str, Any] = "",
        *,
        until: Instant | None = None,
        from_: Instant | None = None,
        words: Sequence[str] = (),
        topic: str = "",
        topic_scope: str = "",
        zone: Mapping[str, Any] | None = None,
        distinct: bool = False,
        keep: bool = False,
    ) -> Stream:
        """The stream of what matches from now on; nothing at all matches everything.

        With `from_` in the past, such as `"-10m"`, it begins with what matched since then and has not expired;
        `Stream.past` says how many these are. They are asked for once: when the subscription has to be made again, it
        goes on where the connection was lost. With `distinct`, what this subscriber was already given through another
        or earlier subscription is not given again.

        `keep` leaves the subscription with the cluster when the stream is closed; the client needs a `subscriber` then.
        """
        if keep and self._temporary:
            raise ValueError("a subscription can only be kept for a named subscriber: Client(…, subscriber='…')")
        parts = subscription_parts(
            filter,
            words=words,
            topic=topic,
            topic_scope=topic_scope,
            zone=zone,
            from_=from_,
            until=until,
            distinct=distinct,
        )
        return Stream(self._conversation, parts, keep=keep)

    def listen(self) -> Stream:
        """The stream of everything that reaches this subscriber, whichever of its subscriptions it matched.

        For a named subscriber whose subscriptions were made before, or elsewhere.
        """
        return Stream(self._conversation, None, keep=True)

    async def publish(
        self, publications: Publication | Mapping[str, Any] | Sequence[Publication | Mapping[str, Any]]
    ) -> list[str]:
        """Publishes one or a list, all or nothing; returns their ids when the cluster has accepted them."""
        several = [publications] if isinstance(publications, Publication | Mapping) else publications
        identified = [with_id(publication) for publication in several]
        if not identified:
            return []
        try:
            async with asyncio.timeout(self._options.call_timeout_s):
                await self._in_flight.acquire()
        except TimeoutError:
            raise CallTimeout(
                f"{self._options.publishes_in_flight_max} publishes are in flight and none was answered in time"
            ) from None
        try:
            self._conversation.check()
            ref, effects = self._conversation.session.publish(identified)
            return cast(list[str], await self._conversation.call(ref, effects))
        finally:
            self._in_flight.release()

    async def publications(
        self,
        where: str = "",
        *,
        words: Sequence[str] = (),
        topic: str = "",
        topic_scope: str = "",
        zone: Mapping[str, Any] | None = None,
        from_: Instant | None = None,
        until: Instant | None = None,
        limit: int = 100,
    ) -> list[KeptPublication]:
        """The publications that match, of those that the cluster keeps: at most `limit`, the newest first.

        `where` is a filter. `from_` and `until` bound when they were published.
        """
        conditions = {
            "where": where,
            "word": list(words),
            "topic": topic,
            "topic_scope": topic_scope,
            "zone": zone,
            "from": from_,
            "until": until,
            "limit": limit,
        }
        return await find_publications(self._rest, conditions)

    async def subscriptions(self) -> list[dict[str, Any]]:
        """All subscriptions of this subscriber, as the cluster has them."""
        return await list_subscriptions(self._rest, self.subscriber)

    async def cluster(self) -> dict[str, Any]:
        """Every slice of the cluster, and the configuration in force."""
        return cast(dict[str, Any], await self._rest.get("/v1/cluster"))

    async def scale(
        self,
        layers: Mapping[str, int] | None = None,
        *,
        replace: Sequence[str] = (),
        routing: str | None = None,
        map: Mapping[str, Any] | Literal["none"] | None = None,
    ) -> str:
        """Asks for other numbers of slices (`{"matcher": 3}`), for others in the place of some, for another routing,
        for another map of anchors (`{"parts": 3, "words": {"house": 0}}`, or "none"), or for several of these at once.

        Returns the id of the scaling when it has begun; `scaling` says how far it is. During another one it raises a
        `BraidError` of status 409, whose `problem["scaling"]` is the id of that one.
        """
        return await scale(self._rest, layers or {}, replace, routing, map)

    async def scaling(self, id: str) -> Scaling:
        """How far a scaling is."""
        return await find_scaling(self._rest, id)

    async def scalings(self) -> list[Scaling]:
        """The scalings of the cluster, the newest first."""
        return await list_scalings(self._rest)

    async def not_ready(self) -> list[str]:
        """Why the connection point cannot serve now; empty when it can."""
        try:
            await self._rest.get("/readyz")
        except BraidError as error:
            reasons = error.problem.get("reasons")
            if not isinstance(reasons, list):
                raise
            return [str(reason) for reason in reasons]
        return []

    async def trace(self, publication: Publication | Mapping[str, Any], *, timeout_s: float = 10.0) -> Trace:
        """Publishes and returns the publication's way; not `complete` when that takes longer than `timeout_s`."""
        return await trace(self._rest, with_id(publication), timeout_s)

    async def explain(
        self, publication: Publication | Mapping[str, Any], subscription: str | None = None
    ) -> MatchExplanation:
        """Which subscriptions of all subscribers this publication would match; nothing is published.

        With the id of a subscription the answer also has its `explanation`: which part fails, and what it saw.
        """
        return await explain(self._rest, publication, subscription)

    def _start(self) -> None:
        self._connection.start()

    def _urls_in_use_first(self) -> list[str]:
        return sorted(self._urls, key=lambda url: url != self._connection.url)

    async def _alive_ids(self, url: str) -> frozenset[str]:
        return await alive_ids(self._rest, self.subscriber, self._conversation.session.held_ids, url)

    def _tell(self, state: State) -> None:
        log_state(state)
        if self._user_on_state is None:
            return
        try:
            self._user_on_state(state)
        except Exception:
            logger.exception("the on_state callback failed")  # the connection must not suffer from it
