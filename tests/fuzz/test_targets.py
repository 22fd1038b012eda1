"""The targets are sound: seeds are read, and what ends otherwise than read or refused is a finding."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import pytest

from rebalancer.errors import InputError
from tests.conftest import some_of
from tests.forked import PROCESSES
from tests.fuzz import corpus
from tests.fuzz import target as bounds
from tests.fuzz.clusters import new_folder
from tests.fuzz.corpus import CORPUS, FINDING, MAX_INPUT_BYTES, MAX_INPUTS, begin, grow, kept
from tests.fuzz.structure import json_structure, line_structure, yaml_structure
from tests.fuzz.target import MAX_BYTES, Target, finding_of
from tests.fuzz.targets import ALL
from tests.rows import rows

INPUTS = [path for name in ALL for path in kept(name)]


@rows("name", ALL)
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


def test_the_folder_of_a_process_that_has_ended_is_removed_and_no_other(tmp_path: Path) -> None:
    ended = multiprocessing.get_context("spawn").Process(target=int)
    ended.start()
    ended.join()
    left = tmp_path / f"rebalancer-fuzz-{ended.pid}-x"
    (left / "saved").mkdir(parents=True)
    mine = new_folder(tmp_path)
    others = tmp_path / f"fuzz-{ended.pid}-x"
    others.mkdir()
    assert new_folder(tmp_path) != mine
    assert not left.exists()
    assert mine.is_dir()
    assert others.is_dir()


# As deep, as long and as often as a file may be: whoever builds a value in C recurses, or expands.
LARGEST = MAX_BYTES
HOSTILE: dict[str, bytes] = {
    **{f"{unit!r} over and over": unit * (LARGEST // len(unit)) for unit in (
        b"[", b"{", b'{"a":', b"- ", b"{a: ", b"? ", b"!!x ", b"&a ", b"# ", b"#h", b"1", b'"', b"\\", b"(",
        b"\x0a", b"\x12\x80\x80\x04", b"\x13", b"\x0b", b"a:\n ", b"@", b"http://a",
    )},
    "a deep value in an object": b'{"kind":"List","items":[{"metadata":' + b"[" * LARGEST,
    "a deep value that is sound": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep messages": b"k8s\x00" + b"\x12\xff\xff\x3f" * (LARGEST // 4),
    "aliases": b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 9)) for i in range(12)
    ),
    "a comment of one word": b"apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n# " + b"h" * 200_000,
}  # fmt: skip


# The deepest inputs, repeated up to the largest size that a target reads.
DEEP_UNITS = (b"[", b"{", b'{"a":', b"{a: ", b"- ", b"? ", b"\x12\x80\x80\x04", b"\x13")


# In a process for each target, because a parser that recurses without a bound ends the interpreter.


def findings_in(
    name: str, inputs: Callable[[Target], Iterable[tuple[str, bytes]]], found: Connection
) -> None:
    ends = ((what, finding_of(ALL[name], content)) for what, content in inputs(ALL[name]))
    found.send([f"{what}: {finding}" for what, finding in ends if finding is not None])


def findings_of_a_process(name: str, inputs: Callable[[Target], Iterable[tuple[str, bytes]]]) -> list[str]:
    """What the inputs find; that the process ended is one finding."""
    found, sent = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=findings_in, args=(name, inputs, sent))
    process.start()
    sent.close()
    try:
        return list(found.recv())
    except EOFError:
        process.join()
        return [f"the process ended with {process.exitcode}"]
    finally:
        process.join()


def hostile_inputs(target: Target) -> Iterable[tuple[str, bytes]]:
    """What is deep or long, and then the deepest inputs of the largest size.

    However large an input may be: its depth is bounded before a parser recurses that far.
    """
    yield from HOSTILE.items()
    for unit in DEEP_UNITS:
        yield repr(unit), unit * (target.largest // len(unit))


@pytest.mark.parametrize("name", ALL)
def test_no_parser_in_c_is_ended_or_kept_busy_by_what_is_deep_or_long(name: str) -> None:
    assert findings_of_a_process(name, hostile_inputs) == []


def kills_its_process(_target: Target) -> Iterable[tuple[str, bytes]]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return ()


def test_a_process_that_ends_by_an_input_is_a_finding() -> None:
    assert findings_of_a_process("policy", kills_its_process) == [
        f"the process ended with -{signal.SIGSEGV.value}"
    ]


@rows("path", INPUTS)
def test_no_input_of_the_corpus_is_a_finding(path: Path) -> None:
    assert finding_of(ALL[path.parent.name], path.read_bytes()) is None


@pytest.mark.many_cases
@pytest.mark.parametrize("name", [name for name, target in ALL.items() if target.mutate is not None])
def test_mutated_seeds_are_read_or_refused(name: str) -> None:
    target = ALL[name]
    mutate = target.mutate
    assert mutate is not None
    seeds = target.seeds().values()
    changed = 0
    for seed in some_of(range(20)):
        for content in seeds:
            other = mutate(content, target.max_bytes, Random(seed))
            if other is not None and other != content:
                changed += 1
                assert finding_of(target, other) is None
    assert changed >= len(some_of(range(10)))


def ending(what: Callable[[], object]) -> Target:
    return Target("test", lambda _content: what(), dict)


def raising(error: Exception) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


def test_a_refusal_is_no_finding_and_anything_else_is() -> None:
    assert finding_of(ending(lambda: None), b"") is None
    assert finding_of(ending(raising(InputError("bad"))), b"") is None
    for error in (RuntimeError("a defect"), ValueError("x"), OverflowError("x"), RecursionError("x")):
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
