from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.service.policy_in_force import FileInForce, PolicyInForce

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
    assert "nothing is evicted until it can be used" in message


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


def test_a_file_that_has_not_changed_is_not_spoken_of_unless_somebody_asks(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = FileInForce(path, lambda text, _: len(text))
    with caplog.at_level(logging.INFO):
        assert not file.refresh()
        assert caplog.messages == []
        file.ask()
        assert not file.refresh()
        path.write_text("another")
        assert file.refresh()
    assert caplog.messages == [
        f"the file {path} is unchanged, and in force",
        f"the file {path} is in force from now on",
    ]
    assert file.loaded == len("another")


def test_the_file_is_read_again_before_it_is_in_force(path: Path) -> None:
    policy = PolicyInForce(path)
    assert policy.now() is policy.loaded
    path.write_text(POLICY + "safety: {maxPendingPods: 3}\n")

    assert str(policy.now().policy.safety.max_pending_pods) == "3"
    assert policy.now().digest != policy.loaded.digest


def pauses(policy: PolicyInForce) -> bool:
    """Whether a run evicts nothing by the file as it is now: it stops after an error too."""
    try:
        return policy.now().policy.safety.pause
    except InputError:
        return True


@pytest.mark.parametrize(
    "text",
    [
        *(f"safety: {{pause: {word}}}\n" for word in ("yes", "on", "y", "1", '"true"', "TRUE", "True")),
        "safety: {Pause: true}\n",
        "safety: {pause: true}\nlimits: {perRun: -1}\n",
        "safety: {pause: true}\n{",
        "safety: {pause: true}\n---\n",
        None,
    ],
    ids=str,
)
def test_whoever_wants_a_pause_has_it_in_whatever_words(path: Path, text: str | None) -> None:
    policy = PolicyInForce(path)
    if text is None:
        path.unlink()
    else:
        path.write_text(POLICY + text)

    assert pauses(policy)
    policy.refresh()
    assert pauses(policy)


def test_prices_of_another_file_count_in_a_service_too(path: Path) -> None:
    path.with_name("prices.yaml").write_text("m5.large: 0.1\n")
    path.write_text(POLICY + "strategies: {consolidation: {pricesFile: prices.yaml}}\n")
    strategies: Any = PolicyInForce(path).loaded.policy.strategies

    assert strategies.consolidation.prices == {"m5.large": 0.1}


def test_without_a_file_the_defaults_stay(caplog: pytest.LogCaptureFixture) -> None:
    policy = PolicyInForce(None)
    policy.ask()

    assert not policy.refresh()
    assert policy.now() is policy.loaded


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
    with pytest.raises(InputError):
        policy.now()
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
