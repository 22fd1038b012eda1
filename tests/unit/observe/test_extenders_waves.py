"""What an extender answered holds for one move: the next wave asks again."""

from __future__ import annotations

from tests.unit.observe.test_extenders import asked, liking
from tests.unit.planning.builders import a_workload


def test_a_wave_moves_one_pod_that_it_is_asked_about() -> None:
    """It may say otherwise once that pod is where it wanted it, and is asked again before the next wave."""
    found = asked(liking(cold=7), *(a_workload(f"web{at}", ["hot"], cpu="1.15") for at in range(6)))

    execution = found.loaded.policy.execution
    assert min(execution.first_wave, execution.wave_size) > 1
    assert [move.wave for move in found.plan.moves] == [1, 2]
