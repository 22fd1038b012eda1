"""Who replaced whom: by controller and time, as a multiset; a StatefulSet's by name."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.execution.evict import Attempt
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.verify import match
from rebalancer.planning.plan import Move
from tests.unit.execution.builders import NOW, a_granted, a_move, an_observed_pod


def evicted(name: str, *, at: float = NOW, to: tuple[str, ...] = ("cool",), **more: str) -> Attempt[Move]:
    return a_granted(a_move(name, to=to, **more), at)  # type: ignore[arg-type]


def test_a_pod_of_the_same_controller_made_after_the_eviction_is_the_replacement() -> None:
    new = an_observed_pod("web-9")
    assert match([evicted("web-1")], {"uid-web-1"}, [new]) == {"uid-web-1": new}


def test_a_pod_made_in_the_second_of_the_eviction_is_one() -> None:
    assert match([evicted("web-1", at=NOW + 0.9)], set(), [an_observed_pod("web-9", created=NOW)])


def test_a_pod_made_before_is_none() -> None:
    assert not match([evicted("web-1")], set(), [an_observed_pod("web-9", created=NOW - 1)])


def test_a_pod_that_was_there_before_is_none_whatever_its_clock_says() -> None:
    assert not match([evicted("web-1")], {"uid-web-9"}, [an_observed_pod("web-9", created=NOW + 60)])


def test_a_pod_of_another_controller_or_namespace_or_of_none_is_none() -> None:
    others = [
        an_observed_pod("a", controller="other"),
        an_observed_pod("b", controller=""),
        an_observed_pod("c", namespace="elsewhere"),
    ]
    assert not match([evicted("web-1")], set(), others)


def test_a_replacement_that_is_leaving_again_is_none() -> None:
    assert not match([evicted("web-1")], set(), [an_observed_pod("web-9", terminating=True)])


def test_a_pod_that_failed_gives_way_to_one_that_did_not() -> None:
    failed = an_observed_pod("web-8", node="cool", phase="Failed")
    good = an_observed_pod("web-9", created=NOW + 20)
    assert match([evicted("web-1")], set(), [failed, good]) == {"uid-web-1": good}
    assert match([evicted("web-1")], set(), [failed]) == {"uid-web-1": failed}


def test_an_early_eviction_leaves_a_late_one_the_only_pod_made_after_it() -> None:
    moves = [evicted("web-1", at=NOW), evicted("web-2", at=NOW + 10)]
    failed = an_observed_pod("web-8", node="cool", phase="Failed", created=NOW + 5)
    late = an_observed_pod("web-9", created=NOW + 12)
    assert len(match(moves, set(), [failed, late])) == 2


def test_replicas_are_paired_in_favour_of_the_plan() -> None:
    moves = [evicted("web-1", to=("a",)), evicted("web-2", to=("b",))]
    on_b, on_a = an_observed_pod("web-8", node="b"), an_observed_pod("web-9", node="a", created=NOW + 2)
    assert match(moves, set(), [on_b, on_a]) == {"uid-web-1": on_a, "uid-web-2": on_b}


def test_a_stateful_sets_replacement_has_the_name_and_a_new_uid() -> None:
    old = evicted("db-0", kind="StatefulSet", controller="sts")
    same = an_observed_pod("db-0", uid="uid-db-0", controller="sts")
    sibling = an_observed_pod("db-1", uid="fresh-1", controller="sts")
    new = an_observed_pod("db-0", uid="fresh-0", controller="sts")
    impostor = an_observed_pod("db-0", uid="fresh-2", controller="someone")
    assert not match([old], {"uid-db-0"}, [same, sibling])
    assert not match([old], {"uid-db-0"}, [impostor])
    assert match([old], {"uid-db-0"}, [new, sibling]) == {"uid-db-0": new}


def test_a_pod_without_a_creation_time_replaces_nobody() -> None:
    odd = an_observed_pod("web-9", created=NOW)
    nameless = ObservedPod(type(odd.metadata)(name="web-9", namespace="shop", uid="u"), odd.spec, odd.status)
    assert not match([evicted("web-1")], set(), [nameless])


NODES = st.sampled_from(["a", "b", "c", ""])
MOVES = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 5), st.sets(st.sampled_from("abc"), min_size=1)),
    max_size=5,
)
PODS = st.lists(
    st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(-3, 9), NODES, st.booleans(), st.booleans()),
    max_size=6,
)


def a_wave(moves: list[tuple[str, int, set[str]]]) -> list[Attempt[Move]]:
    return [
        evicted(f"old-{index}", at=NOW + at, to=tuple(sorted(to)), controller=controller)
        for index, (controller, at, to) in enumerate(moves)
    ]


def pods_of(pods: list[tuple[str, int, str, bool, bool]]) -> list[ObservedPod]:
    return [
        an_observed_pod(
            f"new-{index}",
            controller=controller,
            created=NOW + at,
            node=node,
            terminating=terminating,
            phase="Failed" if failed else "",
        )
        for index, (controller, at, node, terminating, failed) in enumerate(pods)
    ]


def fits(item: Attempt[Move], pod: ObservedPod) -> bool:
    same = pod.controller.uid == item.move.pod.controller_uid
    return same and pod.created_at >= item.not_before and not pod.terminating


@given(MOVES, PODS, st.sets(st.integers(0, 5)))
def test_no_pod_replaces_two_and_none_is_of_before_or_of_another(
    moves: list[tuple[str, int, set[str]]], pods: list[tuple[str, int, str, bool, bool]], old: set[int]
) -> None:
    wave, now = a_wave(moves), pods_of(pods)
    before = {f"uid-new-{index}" for index in old}
    found = match(wave, before, now)
    uids = [pod.metadata.uid for pod in found.values()]
    assert len(uids) == len(set(uids))
    assert not set(uids) & before
    controller = {item.move.pod.uid: item.move.pod.controller_uid for item in wave}
    assert all(pod.controller.uid == controller[uid] and not pod.terminating for uid, pod in found.items())


@given(MOVES, PODS)
def test_as_many_are_paired_as_can_be(
    moves: list[tuple[str, int, set[str]]], pods: list[tuple[str, int, str, bool, bool]]
) -> None:
    wave, now = a_wave(moves), pods_of(pods)
    padded = [*now, *[None] * len(wave)]
    most = 0
    for order in {tuple(choice) for choice in permutations(range(len(padded)), min(len(wave), 3))}:
        pairs = [(item, padded[index]) for item, index in zip(wave[:3], order, strict=False)]
        most = max(most, sum(pod is not None and fits(item, pod) for item, pod in pairs))
    assert len(match(wave[:3], set(), now)) == most


@given(MOVES, PODS, st.randoms())
def test_the_pairing_does_not_depend_on_the_order_pods_are_listed_in(
    moves: list[tuple[str, int, set[str]]], pods: list[tuple[str, int, str, bool, bool]], random: object
) -> None:
    wave, now = a_wave(moves), pods_of(pods)
    shuffled = list(now)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert match(wave, set(), now) == match(wave, set(), shuffled)


@given(MOVES, PODS)
def test_what_landed_as_planned_is_not_paired_away(
    moves: list[tuple[str, int, set[str]]], pods: list[tuple[str, int, str, bool, bool]]
) -> None:
    """No exchange of two replacements of one controller makes more landings as planned."""
    wave, now = a_wave(moves), pods_of(pods)
    found = match(wave, set(), now)
    listed = {item.move.pod.uid: {landing.node for landing in item.move.landings} for item in wave}
    controller = {item.move.pod.uid: item.move.pod.controller_uid for item in wave}

    def planned(uid: str, pod: ObservedPod) -> int:
        return pod.spec.node_name in listed[uid]

    for one in found:
        for two in found:
            if controller[one] == controller[two]:
                as_is = planned(one, found[one]) + planned(two, found[two])
                exchanged = planned(one, found[two]) + planned(two, found[one])
                assert exchanged <= as_is or one == two
