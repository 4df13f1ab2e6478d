"""The model of scaling finds the parameters that made the points."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.analysis.scaling_law import ScalingLaw, fit

parameters = st.floats(0, 0.5), st.floats(0, 0.05)


@given(*parameters)
def test_it_finds_the_law_that_made_the_points(contention: float, coherence: float) -> None:
    law = ScalingLaw(contention, coherence, 1.0, 6, 5)
    found = fit([(p, law.speedup(p)) for p in range(1, 7)])
    assert found is not None
    assert found.contention == pytest.approx(contention, abs=1e-6)
    assert found.coherence == pytest.approx(coherence, abs=1e-6)
    assert found.r_squared > 0.999 or contention + coherence < 1e-9


@given(st.lists(st.tuples(st.integers(1, 8), st.floats(0.05, 20)), min_size=2, max_size=10))
def test_neither_part_is_ever_below_zero(points: list[tuple[float, float]]) -> None:
    found = fit(points)
    if found is not None:
        assert found.contention >= 0
        assert found.coherence >= 0
        assert found.speedup(1) == 1


def test_two_unknowns_need_two_configurations() -> None:
    assert fit([(1, 1.0), (2, 1.8)]) is None
    assert fit([(1, 1.0)]) is None


@given(st.floats(1.0, 1.9), st.floats(1.0, 1.9))
def test_what_goes_through_two_configurations_says_nothing_of_how_well_it_fits(two: float, three: float) -> None:
    """Unless one of its parts would be below zero: without it the law misses them."""
    points = [(1, 1.0), (2, two), (3, three)]
    found = fit(points)
    assert found is not None
    assert found.is_judged == (found.contention == 0 or found.coherence == 0)
    if not found.is_judged:
        assert [found.speedup(p) for p, _ in points] == pytest.approx([s for _, s in points])
    judged = fit([*points, (4, two)])
    assert judged is not None
    assert judged.is_judged


def test_a_law_of_which_a_part_was_cut_off_misses_what_was_measured() -> None:
    found = fit([(1, 1.0), (2, 1.1), (3, 1.9)])
    assert found is not None
    assert (found.contention > 0, found.coherence) == (True, 0)
    assert found.speedup(2) > 1.2
    assert found.r_squared < 0.9
    assert found.is_judged


def test_where_it_is_fastest() -> None:
    assert ScalingLaw(0.0, 0.01, 1.0, 3, 3).peak == pytest.approx(10.0)
    assert ScalingLaw(0.1, 0.0, 1.0, 3, 3).peak == float("inf")


def test_what_no_number_of_slices_is_beyond() -> None:
    assert ScalingLaw(0.25, 0.0, 1.0, 3, 3).ceiling == 4.0
    assert ScalingLaw(0.0, 0.0, 1.0, 3, 3).ceiling == float("inf")
    peaked = ScalingLaw(0.1, 0.01, 1.0, 3, 3)
    assert peaked.ceiling == pytest.approx(max(peaked.speedup(p / 100) for p in range(100, 3000)), rel=1e-4)


def test_a_law_that_explains_less_than_half_describes_nothing() -> None:
    up_and_down = fit([(1, 1.0), (2, 0.716), (3, 0.857), (3, 0.806)])
    assert up_and_down is not None
    assert up_and_down.r_squared < 0
    assert not up_and_down.describes
    steady = fit([(1, 1.0), (2, 1.8), (3, 2.5)])
    assert steady is not None
    assert steady.describes
