"""The targets are sound: seeds are read, and what ends otherwise than read or refused is a finding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rebalancer.errors import InputError, InternalError
from tests.fuzz import corpus
from tests.fuzz import target as bounds
from tests.fuzz.corpus import CORPUS, FINDING, MAX_INPUT_BYTES, MAX_INPUTS, begin, grow, kept
from tests.fuzz.structure import json_structure, line_structure, yaml_structure
from tests.fuzz.target import Target, finding_of
from tests.fuzz.targets import ALL

INPUTS = [path for name in ALL for path in kept(name)]


@pytest.mark.parametrize("name", ALL)
def test_every_seed_is_read(name: str) -> None:
    for content in ALL[name].seeds().values():
        ALL[name].decode(content)


def test_the_corpus_is_of_targets_that_exist_and_small() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(ALL)
    for name in ALL:
        grown = [path for path in kept(name) if not path.name.startswith(FINDING)]
        assert len(grown) <= MAX_INPUTS
        assert all(path.stat().st_size <= MAX_INPUT_BYTES for path in grown)


def test_fuzzing_begins_with_seeds_and_what_was_kept_and_keeps_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "CORPUS", tmp_path / "kept")
    target = Target("test", lambda _content: None, lambda: {"seed": b"sound"})
    (tmp_path / "kept" / "test").mkdir(parents=True)
    (tmp_path / "kept" / "test" / "finding-1").write_bytes(b"mended")
    begin(target, tmp_path / "first")
    assert {path.read_bytes() for path in (tmp_path / "first").iterdir()} == {b"sound", b"mended"}

    (tmp_path / "first" / "new").write_bytes(b"found")
    (tmp_path / "first" / "large").write_bytes(b"x" * (MAX_INPUT_BYTES + 1))
    grow(target, tmp_path / "first")
    assert len(kept("test")) == 2
    begin(target, tmp_path / "second")
    assert {path.read_bytes() for path in (tmp_path / "second").iterdir()} == {b"sound", b"mended", b"found"}


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_input_of_the_corpus_is_a_finding(path: Path) -> None:
    assert finding_of(ALL[path.parent.name], path.read_bytes()) is None


@pytest.mark.parametrize("name", [name for name, target in ALL.items() if target.mutate is not None])
def test_mutated_seeds_are_read_or_refused(name: str) -> None:
    target = ALL[name]
    mutate = target.mutate
    assert mutate is not None
    changed = 0
    for seed in range(20):
        for content in target.seeds().values():
            other = mutate(content, target.max_bytes, Random(seed))
            if other is not None and other != content:
                changed += 1
                assert finding_of(target, other) is None
    assert changed >= 10


def ending(what: Callable[[], object]) -> Target:
    return Target("test", lambda _content: what(), dict)


def raising(error: Exception) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


def test_a_refusal_is_no_finding_and_anything_else_is() -> None:
    assert finding_of(ending(lambda: None), b"") is None
    assert finding_of(ending(raising(InputError("bad"))), b"") is None
    for error in (InternalError("a defect"), ValueError("x"), OverflowError("x"), RecursionError("x")):
        found = finding_of(ending(raising(error)), b"")
        assert found is not None
        assert type(error).__name__ in found.what


def test_time_and_memory_out_of_proportion_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BASE_BYTES", 8 << 20)

    now = [0.0]

    def slow() -> None:
        now[0] += 60.0

    found = finding_of(ending(slow), b"ab", lambda: now[0])
    assert found is not None
    assert found.place == "time"
    peak = bounds._most_memory()
    found = finding_of(ending(lambda: bytearray(peak + (64 << 20)).count(1)), b"")
    assert found is not None


def test_mutations_keep_the_outline_and_change_something() -> None:
    document = {"a": [1, 2, {"b": "c"}], "d": None}
    seen = set()
    for seed in range(50):
        changed = json_structure()(json.dumps(document).encode(), 1000, Random(seed))
        if changed is not None:
            json.loads(changed)
            seen.add(changed)
    assert len(seen) > 20
    assert json_structure()(b"no json", 1000, Random(1)) is None
    assert yaml_structure(b"a: [", 1000, Random(1)) is None
    lines = b'{"items":[{"a":1},\n{"b":2}]}\n'
    assert any(line_structure(lines, 1000, Random(seed)) not in (None, lines) for seed in range(20))
