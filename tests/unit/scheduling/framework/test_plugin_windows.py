"""A load-aware plugin may use any window of the last half minute: each leaves out other pods."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from rebalancer.load.scheduler_view import SchedulerView, WatcherMetrics
from rebalancer.scheduling.framework.plugin import MAX_WINDOWS, PluginInputs
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

END = 1000.0  # of the window we know; it does not show what was bound since END - 60


def inputs(*bound: float) -> PluginInputs:
    view = SchedulerView({"http://w": WatcherMetrics({}, END, END - 900, END, "test")})
    return PluginInputs(view, np.array(bound), [0] * len(bound), [0] * len(bound))


def unseen(found: list[PluginInputs]) -> list[list[int]]:
    return [[pod for pod, _, _ in item.recently_bound(END)] for item in found]


@rows(
    "bound, expected",
    [
        ((), [[]]),
        ((END - 10,), [[0]]),  # in no window
        ((END - 95,), [[]]),  # in every window
        ((END - 10, END - 70), [[0, 1], [0]]),
        ((END - 80, END - 70, END - 70), [[0, 1, 2], [1, 2], []]),
    ],
)
def test_the_pods_that_a_window_leaves_out_follow_the_order_in_which_they_were_bound(
    bound: tuple[float, ...], expected: list[list[int]]
) -> None:
    assert unseen(inputs(*bound).with_stale_windows) == expected


def test_what_a_scheduler_forgot_is_left_out_on_nodes_that_have_a_younger_pod() -> None:
    known = replace(inputs(END - 55, END - 5, END - 55, END + 9), node=[0, 0, 1, 1], forgot_at=END + 8)

    assert unseen([known, replace(known, forgot_at=None)]) == [[1, 2, 3], [0, 1, 2, 3]]


def test_of_many_windows_the_first_the_last_and_some_between_are_kept() -> None:
    found = unseen(inputs(*(END - 61 - number for number in range(28))).with_stale_windows)

    assert len(found) == MAX_WINDOWS
    assert (len(found[0]), len(found[-1])) == (28, 0)


def test_without_a_window_or_times_of_binding_there_is_one_view() -> None:
    assert len(replace(inputs(END - 70), bound_at=None).with_stale_windows) == 1
    assert len(PluginInputs().with_stale_windows) == 1


def test_a_pod_whose_kubelet_has_said_nothing_yet_is_taken_to_be_bound_when_it_was_created() -> None:
    pod = a_pod("web", node="n", created="2026-01-01T00:00:00Z")
    pod["status"].pop("startTime", None)
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[pod])

    found = PluginInputs.of(snapshot, SchedulerView())

    assert found.bound_at is not None
    assert found.bound_at.tolist() == snapshot.pods.created.tolist()
