"""`./dev bench telemetry`: what telemetry costs a slice, for each run of batches and for each sample.

Cores of the layers work on the same batches with and without it, in turns, each for itself in one thread. Nothing goes
over a link, so the share it has in a real slice is smaller than here.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from braid.content import Content, encode_content
from braid.messages import Anchors, Match, MatchRequest, Partial, Publications
from braid.subscription import SubscriptionRecord
from braid.telemetry.measures import Measures
from braid.telemetry.sample import encode_sample
from braid.telemetry.sampling import Sampling, State, Usage, Who
from braid.topology import Configuration, Routing
from services.accesspoint import measuring as accesspoint_measuring
from services.accesspoint.core import AccessPointCore
from services.exitpoint import measuring as exitpoint_measuring
from services.exitpoint.core import ExitPointCore
from services.matcher import measuring as matcher_measuring
from services.matcher.core import MatcherCore

_SENSORS = 1000
_BATCHES = 10  # in a run


class Case(NamedTuple):
    """A layer at work. One core does both, because two indexes differ by more than telemetry costs."""

    layer: str
    run: Callable[[int], None]  # handles the batches of one run, whose number it is given
    switch: Callable[[bool], None]  # telemetry on or off


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench telemetry", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.2, help="of one turn (default 0.2)")
    parser.add_argument("--turns", type=int, default=15, help="with and without, each so often (default 15)")
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [
        _compare(make, batch, given) for make in (_accesspoint, _anchored, _matcher, _exitpoint) for batch in (1, 200)
    ]
    result = {"machine": _machine(), "runs": rows, "sample_us": round(_sample_us(), 1)}
    print(json.dumps(result, indent=2) if given.json else _table(result))


def _compare(make: Callable[[int, int], Case], batch: int, given: argparse.Namespace) -> dict[str, Any]:
    case = make(batch, given.subscriptions)
    times: dict[bool, list[float]] = {False: [], True: []}
    number = 0
    for turn in range(2 * given.turns + 2):
        is_on = bool(turn % 2)
        case.switch(is_on)
        runs, began = 0, time.thread_time()
        while (took := time.thread_time() - began) < given.seconds:
            number += 1
            case.run(number)
            runs += 1
        if turn >= 2:  # the first turns warm up
            times[is_on].append(1e6 * took / runs)
    plain, extra = median(times[False]), median(on - off for off, on in zip(times[False], times[True], strict=True))
    return {
        "layer": case.layer,
        "batch": batch,
        "run_us": round(plain, 2),
        "extra_us": round(extra, 2),
        "share": round(extra / plain, 4),
        "extra_ns_per_publication": round(1000 * extra / (_BATCHES * batch), 1),
    }


def _contents(batch: int) -> list[bytes]:
    return [encode_content(Content(attributes={"sensor": f"s{n % _SENSORS}", "value": n})) for n in range(batch)]


def _publications(batch: int) -> Callable[[int], list[Publications]]:
    contents = _contents(batch)

    def make(number: int) -> list[Publications]:
        first = _BATCHES * number
        return [Publications(1, "connpoint-1.a", first + n, 0, first, 7, 0.0, contents) for n in range(_BATCHES)]

    return make


def _configuration(routing: Routing = "broadcast") -> Configuration:
    return Configuration(1, ("accesspoint-1",), ("matcher-1", "matcher-2"), ("exitpoint-1",), routing)


def _accesspoint(batch: int, _subscriptions: int, routing: Routing = "broadcast") -> Case:
    core, made = AccessPointCore("accesspoint-1", time.time_ns), _publications(batch)
    measuring = accesspoint_measuring.Measuring(Measures(), core)
    hook, is_measured = core.on_routed, True
    core.on_configuration(_configuration(routing), 0.0)
    if routing == "anchored":
        for place, matcher in enumerate(("matcher-1", "matcher-2")):
            anchors = [f"filter:sensor = 's{n}'" for n in range(place, _SENSORS, 2)]
            core.on_anchors(matcher, Anchors(0, 1, True, True, anchors, []))
    routes_hook = None if core.routes is None else core.routes._on_hit

    def switch(is_on: bool) -> None:
        nonlocal is_measured
        is_measured, core.on_routed = is_on, hook if is_on else None
        if core.routes is not None:
            core.routes._on_hit = routes_hook if is_on else None

    def run(number: int) -> None:
        core.on_publications(made(number), time.time(), time.time_ns())
        if is_measured:
            measuring.on_performed()

    return Case(f"accesspoint, {routing}", run, switch)


def _anchored(batch: int, subscriptions: int) -> Case:
    return _accesspoint(batch, subscriptions, "anchored")


def _matcher(batch: int, subscriptions: int) -> Case:
    core, contents = MatcherCore("matcher-1", time.time_ns), _contents(batch)
    core.on_recovered(
        SubscriptionRecord(f"s-{n}", "anna", "connpoint-1", f"sensor = 's{n % _SENSORS}' and value >= 0", 0.0)
        for n in range(subscriptions)
    )
    core.on_configuration(_configuration())
    measuring = matcher_measuring.Measuring(Measures(), core)
    hook = core.on_matched

    def switch(is_on: bool) -> None:
        core.on_matched = hook if is_on else None

    def run(number: int) -> None:
        first = _BATCHES * number
        requests = [MatchRequest(1, "connpoint-1.a", first + n, 0, first, 7, 0.0, 2, contents) for n in range(_BATCHES)]
        core.on_match_requests(requests, time.time(), time.time_ns())
        if core.on_matched is not None:
            measuring.on_performed()

    return Case(f"matcher, {subscriptions} subscriptions", run, switch)


def _exitpoint(batch: int, _subscriptions: int) -> Case:
    core = ExitPointCore("exitpoint-1", time.time_ns, 500_000, 60.0)
    core.on_connpoints({"connpoint-1": 1})
    measuring = exitpoint_measuring.Measuring(Measures(), core)
    hook = core.on_released
    matched: list[tuple[str, list[Match]]] = [
        ("connpoint-1", [(place, ["s-1"], content) for place, content in enumerate(_contents(batch))])
    ]

    def switch(is_on: bool) -> None:
        core.on_released = hook if is_on else None

    def run(number: int) -> None:
        first = _BATCHES * number
        partials = [
            Partial(1, "connpoint-1.a", first + n, 0, first - 1, 7, 1, "matcher-1", matched) for n in range(_BATCHES)
        ]
        core.on_partials(partials, time.time(), time.time_ns())
        if core.on_released is not None:
            measuring.on_performed()

    return Case("exitpoint", run, switch)


def _sample_us() -> float:
    """On the event loop, of a matcher with everything in it."""
    measures = Measures()
    state = State(1, True, {"messages": 1000}, {"writes": 1, "link_bytes": 1})
    sampling = Sampling(Who("braid", "matcher-1", "matcher", 1), _Nowhere(), 1.0, lambda: state, measures)
    usage, times = Usage(1.0, 1), []
    for _ in range(200):
        for part in ("matched", "answered"):
            for milliseconds in range(1, 40):
                measures.lasted(part, milliseconds / 1000, 5)
        began = time.thread_time()
        encode_sample(sampling._sample(usage))
        times.append(1e6 * (time.thread_time() - began))
    return median(times)


class _Nowhere:
    async def open(self) -> None: ...
    def put(self, line: Any) -> None: ...
    async def close(self) -> None: ...


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def _table(result: dict[str, Any]) -> str:
    head = f" {'layer':<32}  batch  µs a run  with telemetry   share  ns a publication"
    rows = [
        f" {row['layer']:<32}  {row['batch']:>5}  {row['run_us']:>8,.1f}  {row['extra_us']:>+14.2f}"
        f"  {row['share']:>6.2%}  {row['extra_ns_per_publication']:>16,.1f}"
        for row in result["runs"]
    ]
    last = f"a sample, on the event loop: {result['sample_us']} µs"
    return "\n".join([result["machine"], f"a run is {_BATCHES} batches", "", head, *rows, "", last])


if __name__ == "__main__":
    main()
