"""What telemetry tells of each layer: from when something came until it has gone on, whatever it waited for."""

from typing import Any

import pytest

from braid.config import Settings
from braid.messages import Confirmed, Notifications
from braid.telemetry.measures import Measured, Measures
from services.accesspoint import measuring as accesspoint_measuring
from services.accesspoint.core import AccessPointCore
from services.connpoint import measuring as connpoint_measuring
from services.connpoint.delivery import DeliveryCore
from services.connpoint.ingress_log import IngressLog
from services.connpoint.local_log import LocalLog
from services.connpoint.publishing import Publishing
from services.exitpoint import measuring as exitpoint_measuring
from services.matcher import measuring as matcher_measuring
from services.matcher.core import MatcherCore
from tests.core import exitpoint_cases, ingress_cases, kept_cases, test_accesspoint
from tests.core.matcher_cases import CONFIGURATION, content, match, record
from tests.core.test_matcher_keeping import FOREIGN, OWN
from tests.core.test_routes import FIRST, part


class Clock:
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def s(self) -> float:
        return self.now_s

    def ns(self) -> int:
        return round(self.now_s * 1e9)


def lasted(measured: Measured) -> dict[str, list[tuple[float, int]]]:
    """Of each part the seconds, as exactly as buckets tell, and how many."""
    return {each.part: [(b.upper_us / 1e6, b.count) for b in each.buckets] for each in measured.latencies}


def near(seconds: float, count: int) -> Any:
    return [(pytest.approx(seconds, rel=0.1), count)]


def test_an_access_point_tells_what_it_sent_on_and_how_long_it_was_held() -> None:
    core, measures, clock = AccessPointCore("accesspoint-1", lambda: 0), Measures(), Clock(10.0)
    measuring = accesspoint_measuring.Measuring(measures, core, clock.ns)
    core.on_configuration(test_accesspoint.CONFIGURATION, 1.0)
    some = [test_accesspoint.publications(number) for number in (1, 2, 3)]  # two publications in each
    core.on_publications(some[:2], 10.0, round(9.99e9))
    measuring.on_performed()
    measuring.on_performed()
    found = measures.take()
    assert (found.counts, lasted(found)) == ({"publications": 4}, {"routed": near(0.01, 4)})
    # What a scaling holds has been here since it came.
    core.scaling.buffers.hold(some[:1], 10.0, round(10.0e9))
    core.scaling.buffers.hold(some[1:], 11.0, round(11.0e9))
    clock.now_s = 12.0
    core._flush(12.0)
    measuring.on_performed()
    found = measures.take()
    assert (found.counts, lasted(found)) == ({"publications": 6}, {"routed": [*near(1.0, 4), *near(2.0, 2)]})


def test_an_access_point_tells_which_anchors_sent_publications_somewhere() -> None:
    core, measures = AccessPointCore("accesspoint-1", lambda: 0), Measures()
    accesspoint_measuring.Measuring(measures, core)
    core.on_anchors(FIRST, part(1, (1, 2), begins=True))
    assert core.routes is not None
    core.routes.route([[content(n=2)]], [FIRST], 1.0)
    assert [(hit.anchor, hit.count) for hit in measures.take().anchors] == [("filter:n = 2", 1)]


def test_a_matcher_tells_when_it_has_matched_and_when_the_answer_left() -> None:
    core, measures, clock = MatcherCore("matcher-1", lambda: 999, keeps_publications=True), Measures(), Clock(0.01)
    core.on_recovered([record("s-1")])
    core.on_configuration(CONFIGURATION)
    measuring = matcher_measuring.Measuring(measures, core, clock.ns)
    match(core, kept_cases.request(7, FOREIGN, FOREIGN))  # which others keep; it came at 7 ns
    measuring.on_performed()
    found = measures.take()
    assert found.counts == {"publications": 2}
    assert lasted(found) == {"matched": near(0.01, 2), "answered": near(0.01, 2)}
    assert [hit.anchor for hit in found.anchors] == ["*"]
    (keep,) = match(core, kept_cases.request(8, OWN))
    measuring.on_performed()
    match(core, kept_cases.request(9, FOREIGN, FOREIGN, FOREIGN))  # stands behind it
    measuring.on_performed()
    assert lasted(measures.take()) == {"matched": near(0.01, 4)}
    clock.now_s = 0.3
    core.on_kept(keep.ticket)
    measuring.on_stored(keep.ticket)
    measuring.on_stored(keep.ticket)
    assert lasted(measures.take()) == {"answered": near(0.3, 4)}


def test_an_exit_point_tells_how_long_batches_were_gathered() -> None:
    core, measures, clock = exitpoint_cases.exitpoint(), Measures(), Clock(100.5)
    measuring = exitpoint_measuring.Measuring(measures, core, clock.s)
    found_there = [(home, exitpoint_cases.matches("s-1")) for home in ("connpoint-1", "connpoint-2")]
    exitpoint_cases.feed(core, exitpoint_cases.partial(1, found_there, of=2, matcher=1), now_s=100.0)
    measuring.on_performed()
    assert measures.take().counts == {"batches": 0, "notifications": 0}
    exitpoint_cases.feed(core, exitpoint_cases.partial(1, [], of=2, matcher=2), exitpoint_cases.partial(2), now_s=100.3)
    measuring.on_performed()
    measuring.on_performed()
    found = measures.take()
    assert found.counts == {"batches": 2, "notifications": 3}
    assert lasted(found) == {"gathered": [*near(0.2, 1), *near(0.5, 1)]}


def test_a_connection_point_tells_of_what_was_accepted_there(tmp_path: Any) -> None:
    ingress, settings = ingress_cases.configured(), Settings()
    log = LocalLog(ingress, IngressLog(tmp_path, settings.ingress), lambda _: None)
    publishing = Publishing("connpoint-1", 7, log, settings)
    delivery, measures, clock = DeliveryCore("connpoint-1", lambda: 0), Measures(), Clock(101.0)
    connpoint_measuring.Measuring(measures, log, publishing, delivery, clock.s)
    ingress_cases.publish(ingress, 1, b"a", b"b", b"c", now_s=100.0)
    matched: Any = [(0, ["s-1"], b"a"), (2, ["s-1"], b"c")]
    own = Notifications(1, ingress_cases.ORIGIN, 1, 0, 1, matched)
    foreign = Notifications(1, "connpoint-2.b", 1, 0, 1, matched)
    delivery.on_notifications("exitpoint-1", [own, foreign, own], 0)
    assert lasted(measures.take()) == {"delivered": near(1.0, 2)}  # neither the foreign one nor the repetition
    clock.now_s = 102.0
    publishing.on_confirmed(Confirmed(1, ingress_cases.ORIGIN, [1], []), "exitpoint-1")
    assert lasted(measures.take()) == {"confirmed": near(2.0, 3)}
