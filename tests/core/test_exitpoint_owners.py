"""To whom an exit point confirms: to the connection point of the origin, or to who sees to the partition."""

from braid.messages import Confirmed, Send
from braid.standing_in import owner_of
from services.exitpoint.core import ExitPointCore
from tests.core.exitpoint_cases import partial

BOTH = {"connpoint-1": 5, "connpoint-2": 6}


def exitpoint(connpoints: dict[str, int]) -> ExitPointCore:
    core = ExitPointCore("exitpoint-1", lambda: 999, gathers_max=100, gather_s_max=60.0)
    core.on_connpoints(connpoints)
    return core


def confirmed_to(core: ExitPointCore, origin: str, sequence: int) -> list[str]:
    return [send.to for send in core.on_partials([partial(sequence, [], origin=origin)], 100.0, 7)]


def test_an_origin_of_a_connection_point_is_confirmed_to_it_and_to_nobody_else() -> None:
    assert confirmed_to(exitpoint(BOTH), "connpoint-2.6", 1) == ["connpoint-2"]
    assert confirmed_to(exitpoint({"connpoint-1": 5}), "connpoint-2.6", 1) == ["connpoint-2"]


def test_a_partition_is_confirmed_to_who_sees_to_it() -> None:
    core = exitpoint(BOTH)
    owners = {f"ingress-{n}": owner_of(f"ingress-{n}", BOTH) for n in range(8)}
    assert set(owners.values()) == set(BOTH)
    for log, owner in owners.items():
        assert confirmed_to(core, f"{log}.a", 1) == [owner]


def test_when_that_one_is_gone_it_is_confirmed_to_its_successor() -> None:
    core = exitpoint(BOTH)
    assert {confirmed_to(core, f"ingress-{n}.a", 1)[0] for n in range(8)} == set(BOTH)
    core.on_connpoints({"connpoint-2": 6})
    assert {confirmed_to(core, f"ingress-{n}.a", 2)[0] for n in range(8)} == {"connpoint-2"}
    core.on_connpoint_up("connpoint-1", 7)
    assert {confirmed_to(core, f"ingress-{n}.a", 3)[0] for n in range(8)} == set(BOTH)


def test_a_trace_goes_also_to_the_connection_point_that_accepted_it() -> None:
    core = exitpoint(BOTH)
    owner = owner_of("ingress-0", BOTH)
    (other,) = set(BOTH) - {owner}
    for acceptor in (owner, other):
        hops = [(acceptor, 1, 2), ("matcher-1", 5, 6)]
        sequence = 1 if acceptor == owner else 2
        sends = core.on_partials([partial(sequence, [], origin="ingress-0.a", hops=hops)], 100.0, 7)
        trace = (sequence, [*hops, ("exitpoint-1", 7, 999)])
        expected = [Send(owner, [Confirmed(1, "ingress-0.a", [sequence], [trace])])]
        if acceptor == other:
            expected.append(Send(other, [Confirmed(1, "ingress-0.a", [], [trace])]))
        assert sends == expected
