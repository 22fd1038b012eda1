from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from rebalancer.errors import InputError
from rebalancer.service.policy_in_force import PolicyInForce

POLICY = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {name: NAME}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "policy.yaml"
    found.write_text(POLICY.replace("NAME", "first"))
    return found


def name_of(policy: PolicyInForce) -> str:
    return policy.loaded.policy.metadata.name


def test_a_service_does_not_start_with_a_bad_policy(path: Path) -> None:
    path.write_text("kind: Other")
    with pytest.raises(InputError):
        PolicyInForce(path)


def test_a_changed_policy_is_taken_over(path: Path) -> None:
    policy = PolicyInForce(path)
    path.write_text(POLICY.replace("NAME", "second"))

    assert name_of(policy) == "first"
    assert policy.refresh()
    assert name_of(policy) == "second"
    assert not policy.refresh()


@pytest.mark.parametrize("text", [POLICY + "limits: {perRun: -1}\n", "", "{", None], ids=str)
def test_a_bad_policy_is_refused_once_and_the_old_one_kept(
    path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    policy = PolicyInForce(path)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)

    with caplog.at_level(logging.INFO):
        assert [policy.refresh() for _ in range(3)] == [False] * 3
    assert name_of(policy) == "first"
    assert policy.refused
    (message,) = caplog.messages
    assert str(path) in message
    assert "the one before stays in force" in message


def test_a_mended_policy_is_in_force_again(path: Path) -> None:
    policy = PolicyInForce(path)
    before = path.read_text()
    path.write_text("{")
    policy.refresh()
    path.write_text(before)

    assert not policy.refresh()
    assert policy.refused == ""


def test_who_asks_is_answered_even_if_nothing_changed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    policy = PolicyInForce(path)
    policy.ask()
    with caplog.at_level(logging.INFO):
        policy.refresh()
        policy.refresh()
    assert caplog.messages == ["the policy first is unchanged, and in force"]


def test_brakes_are_those_of_the_file_before_it_is_in_force(path: Path) -> None:
    policy = PolicyInForce(path)
    path.write_text(POLICY + "safety: {maxPendingPods: 3}\n")

    assert str(policy.safety().max_pending_pods) == "3"
    assert str(policy.loaded.policy.safety.max_pending_pods) != "3"


@pytest.mark.parametrize(
    ("text", "paused"),
    [
        ("safety: {pause: true}\nlimits: {perRun: -1}\n", True),
        ("safety: {pause: false}\nlimits: {perRun: -1}\n", False),
        ("limits: {perRun: -1}\n", False),
        ("safety: true\n", False),
        ("{", False),
    ],
)
def test_a_pause_in_a_policy_with_a_mistake_pauses_all_the_same(path: Path, text: str, paused: bool) -> None:
    policy = PolicyInForce(path)
    path.write_text(POLICY + text)

    assert policy.safety().pause is paused


def test_without_a_file_the_defaults_stay(caplog: pytest.LogCaptureFixture) -> None:
    policy = PolicyInForce(None)
    policy.ask()

    assert not policy.refresh()
    assert policy.safety() == policy.loaded.policy.safety


@pytest.mark.parametrize("kind", ["pipe", "folder", "huge", "zeros", "no text"])
def test_whatever_takes_the_place_of_the_file_is_refused_at_once(path: Path, kind: str) -> None:
    policy = PolicyInForce(path)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)  # nobody writes to it
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.write_text("# " + "x" * (2 << 20))
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"\xff\xfe\x00")

    assert not policy.refresh()
    assert policy.refused
    assert str(path) in policy.refused
    assert policy.safety() == policy.loaded.policy.safety
    assert name_of(policy) == "first"


def test_a_config_map_is_taken_over_as_the_kubelet_changes_it(tmp_path: Path) -> None:
    """It writes a new folder and swaps one link: no moment has half a file."""

    def written(name: str) -> None:
        folder = tmp_path / f"..{name}"
        folder.mkdir()
        (folder / "policy.yaml").write_text(POLICY.replace("NAME", name))
        link = tmp_path / "..data_tmp"
        link.symlink_to(folder.name)
        link.rename(tmp_path / "..data")

    written("first")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    policy = PolicyInForce(tmp_path / "policy.yaml")
    written("second")

    assert policy.refresh()
    assert name_of(policy) == "second"


def lowest_free_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


def test_looking_at_what_is_no_file_leaves_nothing_open(path: Path) -> None:
    policy = PolicyInForce(path)
    path.unlink()
    path.mkdir()
    before = lowest_free_descriptor()
    for _ in range(50):
        policy.refresh()

    assert lowest_free_descriptor() == before
