"""Long work rests longer when its turn comes late, and never too long."""

from services.matcher.pacing import REST_S_MAX, REST_S_MIN, Pacing


def test_it_rests_longer_while_its_turn_comes_late_and_shorter_again_afterwards() -> None:
    pacing = Pacing()
    rests = []
    for late_s in [0.0, 0.01, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]:
        pacing.on_turn(late_s)
        rests.append(pacing.rest_s(in_a_hurry=False))
    assert rests[0] == REST_S_MIN
    assert rests[1:3] == [2 * REST_S_MIN, 4 * REST_S_MIN]
    assert rests[2:] == sorted(rests[2:], reverse=True)
    assert rests[-1] == REST_S_MIN


def test_it_goes_on_under_any_load_and_at_once_in_a_hurry() -> None:
    pacing = Pacing()
    for _ in range(100):
        pacing.on_turn(10.0)
    assert pacing.rest_s(in_a_hurry=False) == REST_S_MAX
    assert pacing.rest_s(in_a_hurry=True) == REST_S_MIN
