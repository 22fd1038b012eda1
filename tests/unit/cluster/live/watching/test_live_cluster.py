"""What a watch brought is compared with a LIST: in one history they never differ, in two they do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.live.watching.live_cluster import Versions, differing

NAMES = "abcde"
CHANGES = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=30)


def changed(known: Versions, changes: list[tuple[str, bool]]) -> Versions:
    """The objects once each of these was written, or deleted where it says so; each change is a version."""
    version, found = known[0], dict(known[1])
    for name, deletes in changes:
        version += 1
        key = "shop", name
        if deletes:
            found.pop(key, None)
        else:
            found[key] = version
    return version, found


@given(CHANGES, CHANGES, CHANGES)
def test_a_watch_that_saw_everything_agrees_with_a_list_however_late_either_is(
    earlier: list[tuple[str, bool]], meanwhile: list[tuple[str, bool]], later: list[tuple[str, bool]]
) -> None:
    before = changed((10, {}), earlier)
    listed = changed(before, meanwhile)
    assert not differing(before, changed(listed, later), listed)
    assert not differing(before, before, listed), "it has not heard of the changes yet"


@given(CHANGES, CHANGES, CHANGES)
def test_of_two_histories_whatever_the_versions_every_ghost_and_every_gap_is_found(
    backup: list[tuple[str, bool]], lost: list[tuple[str, bool]], other: list[tuple[str, bool]]
) -> None:
    restored = changed((10, {}), backup)
    watched, listed = changed(restored, lost), changed(restored, other)
    if listed[0] < watched[0]:
        assert differing(watched, watched, listed) >= set(watched[1])
        return
    # The watch goes on after its version: of the other history it sees what came later.
    seen = {**watched[1], **{key: at for key, at in listed[1].items() if at > watched[0]}}
    ghosts = {key for key in seen if key not in listed[1]}
    gaps = {key for key, at in listed[1].items() if seen.get(key) != at}
    assert differing(watched, (listed[0], seen), listed) >= ghosts | gaps
