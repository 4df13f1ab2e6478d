"""The time that is left, by the weights of cells and by how long those that ended took."""

import pytest

from spark.experiments.pace import Pace


def test_weights_are_believed_until_a_cell_has_ended() -> None:
    pace = Pace(30.0)
    assert pace.left_s(0.0) == 30.0
    pace.begin(10.0, 100.0)
    assert pace.left_s(104.0) == 26.0
    assert pace.done(104.0) == pytest.approx(4 / 30)


def test_a_cell_that_took_twice_as_long_makes_the_rest_longer() -> None:
    pace = Pace(30.0)
    pace.begin(10.0, 0.0)
    pace.end(20.0)
    assert pace.left_s(20.0) == 40.0
    pace.begin(20.0, 20.0)
    assert pace.left_s(30.0) == 30.0
    assert pace.done(40.0) == pytest.approx(20 / 30)


def test_a_cell_that_takes_longer_than_expected_is_never_done() -> None:
    pace = Pace(10.0)
    pace.begin(10.0, 0.0)
    assert pace.left_s(1000.0) == 0.0
    assert pace.done(1000.0) == pytest.approx(0.95)
    pace.end(1000.0)
    assert pace.done(1000.0) == 1.0


def test_nothing_to_do_is_done() -> None:
    assert Pace(0.0).done(0.0) == 1.0
    assert Pace(0.0).left_s(0.0) == 0.0
