"""Many seeds hold all guarantees, and the checkers notice when one rule of the protocol is taken away."""

from collections.abc import Callable
from typing import Any

import pytest

from braid.seen import SeenSequences
from services.connpoint import delivery, ingress
from services.connpoint.ingress import IngressCore
from services.exitpoint.core import ExitPointCore
from services.matcher.index import SubscriptionIndex
from tests.simulation.cluster import TRAFFIC_S, Simulation

QUICK = [range(first, first + 75) for first in range(1, 301, 75)]
SLOW = [range(first, first + 100) for first in range(301, 2001, 100)]
SEEDS_UNTIL_CAUGHT_MAX = 100


class RoughSimulation(Simulation):
    """Links break all the time."""

    def _plan_traffic(self) -> None:
        super()._plan_traffic()
        for _ in range(30):
            self.scheduler.at(self.random.uniform(0, TRAFFIC_S), self.network.break_any)


def name_of(seeds: range) -> str:
    return f"{seeds[0]}-{seeds[-1]}"


def problems_of(seed: int) -> list[str]:
    """The message says how to see it again."""
    return [f"seed {seed}: {problem}" for problem in Simulation(seed).run()]


@pytest.mark.parametrize("seeds", QUICK, ids=name_of)
def test_all_guarantees_hold(seeds: range) -> None:
    assert [problem for seed in seeds for problem in problems_of(seed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SLOW, ids=name_of)
def test_all_guarantees_hold_for_many_more(seeds: range) -> None:
    assert [problem for seed in seeds for problem in problems_of(seed)] == []


def test_all_guarantees_hold_while_links_break_all_the_time() -> None:
    assert [f"seed {seed}: {problem}" for seed in range(1, 41) for problem in RoughSimulation(seed).run()] == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SLOW[:5], ids=name_of)
def test_all_guarantees_hold_for_many_more_while_links_break_all_the_time(seeds: range) -> None:
    assert [f"seed {seed}: {problem}" for seed in seeds for problem in RoughSimulation(seed).run()] == []


def test_a_seed_is_the_same_story_every_time() -> None:
    stories = []
    for _ in range(2):
        simulation = Simulation(7)
        simulation.run()
        stories.append((simulation.scheduler.transcript, simulation.ledger.delivered))
    assert stories[0] == stories[1]
    assert stories[0][1]


def test_without_crashes_and_breaks_nothing_is_sent_again() -> None:
    for seed in range(1, 21):
        simulation = Simulation(seed, crashes=False, breaks=False)
        assert simulation.run() == []
        assert [connpoint.ingress.sent_again for connpoint in simulation.connpoints] == [0] * len(simulation.connpoints)


def test_a_small_window_refuses_and_loses_nothing() -> None:
    assert [problem for seed in range(1, 21) for problem in Simulation(seed, window=6).run()] == []


def no_dedupe_memory(patch: pytest.MonkeyPatch) -> None:
    class Forgetful(SeenSequences):
        def __contains__(self, sequence: int) -> bool:
            return False

    patch.setattr(delivery, "SeenSequences", Forgetful)


def no_retry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IngressCore, "on_tick", lambda *_: [])


def no_holding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExitPointCore, "_must_wait", lambda *_: False)


def no_previous(patch: pytest.MonkeyPatch) -> None:
    def send(self: IngressCore, origin: Any, batch: Any, selector: Any) -> Any:
        sent = original(self, origin, batch, selector)
        sent.messages[0].previous = 0
        return sent

    original = IngressCore._send
    patch.setattr(IngressCore, "_send", send)


def confirm_before_receipt(patch: pytest.MonkeyPatch) -> None:
    def notify(self: ExitPointCore, origin: Any, sequence: int, gather: Any, connpoint: str) -> None:
        original(self, origin, sequence, gather, connpoint)
        gather.awaiting.discard(connpoint)

    original = ExitPointCore._notify
    patch.setattr(ExitPointCore, "_notify", notify)


def release_at_the_first_partial(patch: pytest.MonkeyPatch) -> None:
    def on_partial(self: ExitPointCore, origin: Any, partial: Any, now_s: float, arrived_ns: int) -> None:
        partial.partials = 1
        original(self, origin, partial, now_s, arrived_ns)

    original = ExitPointCore._on_partial
    patch.setattr(ExitPointCore, "_on_partial", on_partial)


def no_resend_to_a_linked_connection_point(patch: pytest.MonkeyPatch) -> None:
    def on_connpoint_up(self: ExitPointCore, connpoint: str, incarnation: int) -> Any:
        return [send for send in original(self, connpoint, incarnation) if send.to != connpoint]

    original = ExitPointCore.on_connpoint_up
    patch.setattr(ExitPointCore, "on_connpoint_up", on_connpoint_up)


def no_recovery_of_the_ingress_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IngressCore, "on_recovered", lambda *_: None)


def a_watermark_that_runs_ahead(patch: pytest.MonkeyPatch) -> None:
    def advance(self: ingress.Origin) -> None:
        self.watermark = self.next_sequence - 1

    patch.setattr(ingress.Origin, "advance", advance)


def everything_matches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SubscriptionIndex, "match", lambda self, *_: list(self))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("take_away", "kind"),
    [
        (no_dedupe_memory, "twice"),
        (no_retry, "lost"),
        (no_retry, "stuck"),
        (no_holding, "out of order"),
        (no_previous, "out of order"),
        (confirm_before_receipt, "lost"),
        (release_at_the_first_partial, "lost"),
        (no_resend_to_a_linked_connection_point, "lost"),
        (no_recovery_of_the_ingress_log, "lost"),
        (a_watermark_that_runs_ahead, "lost"),
        (everything_matches, "wrong"),
    ],
)
def test_the_checkers_bite(
    monkeypatch: pytest.MonkeyPatch, take_away: Callable[[pytest.MonkeyPatch], None], kind: str
) -> None:
    take_away(monkeypatch)
    assert any(
        problem.startswith(f"{kind}:")
        for seed in range(1, SEEDS_UNTIL_CAUGHT_MAX + 1)
        for problem in RoughSimulation(seed).run()
    )
