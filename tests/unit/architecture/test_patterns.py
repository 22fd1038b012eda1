"""No regular expression takes steps that grow with the square of a hostile text.

``re`` holds the interpreter while it matches: no probe is answered meanwhile, and no lease renewed. Each
pattern of the tree is found by itself, in the way it is used, and tried with texts made of its own parts.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import rebalancer
import rebalancer_demo
from tests.conftest import ALL_EXAMPLES
from tests.regex_steps import StepCounter, TooManyStepsError, hostile_texts
from tests.rows import rows

FUNCTIONS = frozenset(
    {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
)
# Characters; shorter texts are enough to find the square of all but long parts of a pattern.
SHORT, LONG = (100, 300) if ALL_EXAMPLES else (40, 120)
GROWTH = 5.5  # with three times the text: 3 where steps grow with it, 9 where they grow with its square
MOST_STEPS = 10  # a character of the short text, times its length: more is worse than a square
# Patterns that are made by a function; its arguments stand in the same module, compiled.
MADE_BY = {("rebalancer.cluster.live.failures", "pattern"): "_TRANSPORT_FAILURES"}
# A demonstration's faults name paths of the embedded cluster, as regular expressions of its own user.
GIVEN_BY_ITS_USER = {("rebalancer_demo.faults", "fault.path")}


@dataclass(frozen=True)
class Used:
    """A pattern, and how it is used: ``fullmatch``, ``match``, or else anywhere in a text."""

    place: str
    pattern: str | bytes
    flags: int
    method: str


@functools.cache
def paths() -> Sequence[tuple[str, Path]]:
    """The modules of the tree that may hold patterns, by their names."""
    found = []
    for package in (rebalancer, rebalancer_demo):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            if "import re\n" in path.read_text():
                name = ".".join((package.__name__, *path.relative_to(root).with_suffix("").parts))
                found.append((name.removesuffix(".__init__"), path))
    return found


def sources(part: str = "") -> Iterator[tuple[str, ast.Module]]:
    """The modules of the tree; of a part those whose name begins with it."""
    return ((name, parsed(path)) for name, path in paths() if not part or f"{name}.".startswith(f"{part}."))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def parts() -> list[str]:
    root = Path(str(rebalancer.__file__)).parent
    inner = (path for path in root.iterdir() if not path.name.startswith("__"))
    return [*sorted(f"rebalancer.{path.stem}" for path in inner), "rebalancer_demo"]


def compiled_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from compiled_in(item)


@functools.cache
def called_of_names(path: Path) -> Mapping[str, frozenset[str]]:
    """The attributes that a module asks of each name."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found[node.value.id].add(node.attr)
    return {name: frozenset(attributes) for name, attributes in found.items()}


def methods(called: str, module: str) -> set[str]:
    """The methods that are called of a name: in its module, or anywhere where it is no local name."""
    none: frozenset[str] = frozenset()
    return {
        method
        for name, path in paths()
        if name == module or called.isupper()
        for method in called_of_names(path).get(called, none)
    }


def names_of(tree: ast.Module) -> dict[int, list[str]]:
    """What each call is named: what it is assigned to, or what loops over its table call its row's parts."""
    found: dict[int, list[str]] = defaultdict(list)
    rows: dict[str, list[ast.expr]] = defaultdict(list)  # by the name of what is looped over
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            rows[ast.unparse(node.iter)].append(node.target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if not isinstance(target, ast.Name):
                continue
            row_names = (item for row in rows[target.id] for item in ast.walk(row))
            parts = [item.id for item in row_names if isinstance(item, ast.Name)]
            for call in ast.walk(node.value):
                found[id(call)] += [target.id] if call is node.value else parts
    return found


@functools.cache
def patterns(part: str) -> Sequence[Used]:
    return tuple(found_in(part))


def found_in(part: str) -> Iterator[Used]:
    for name, tree in sources(part):
        names = names_of(tree)
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
                continue
            if node.func.attr not in FUNCTIONS:
                continue
            written = ast.unparse(node.args[0])
            if (name, written) in GIVEN_BY_ITS_USER:
                continue
            module = importlib.import_module(name)
            place = f"{name}:{node.lineno}"
            if made := MADE_BY.get((name, written)):
                for pattern in compiled_in(getattr(module, made)):
                    yield Used(f"{place}:{pattern.pattern[:20]}", pattern.pattern, pattern.flags, "search")
                continue
            called: set[str] = set()
            called = called.union(*(methods(item, name) for item in names.get(id(node), ())))
            called = called & FUNCTIONS or {node.func.attr}
            flags = [item for item in node.args[1:] if "re." in ast.unparse(item)]
            flags += [item.value for item in node.keywords if item.arg == "flags"]
            yield Used(
                place,
                eval(written, vars(module)),
                int(eval(ast.unparse(flags[0]), vars(module))) if flags else 0,
                next((one for one in ("fullmatch", "match") if called <= {one}), "search"),
            )


def steps(counter: StepCounter, pattern: Used, text: str, most: int) -> int:
    count = {"fullmatch": counter.fullmatch, "match": counter.match}.get(pattern.method, counter.everywhere)
    return count(text, most)


def repeats_without_bound(items: Iterable[Any]) -> bool:
    """Whether any part of a parsed pattern takes as many characters as there are."""
    for item in items:
        if isinstance(item, tuple | list | parser.SubPattern):
            if len(item) == 3 and item[1] is names.MAXREPEAT:  # least, most and what is repeated
                return True
            if repeats_without_bound(item):
                return True
    return False


def growing(pattern: Used) -> str | None:
    """A hostile text whose steps grow with the square of its length, or worse; None where there is none.

    A pattern without a repeat that has no bound takes a bounded number of steps at each character.
    """
    if not repeats_without_bound(parser.parse(pattern.pattern, pattern.flags)):
        return None
    counter = StepCounter(pattern.pattern, pattern.flags)
    short = hostile_texts(pattern.pattern, SHORT, pattern.flags)
    for one, other in zip(short, hostile_texts(pattern.pattern, LONG, pattern.flags), strict=True):
        try:
            few = max(steps(counter, pattern, one, MOST_STEPS * SHORT * SHORT), SHORT)
            steps(counter, pattern, other, int(GROWTH * few))
        except TooManyStepsError:
            return one
    return None


@pytest.fixture(autouse=True)
def deep_recursion() -> Iterator[None]:
    """The counter calls itself for each round of a repeat."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.many_cases
@pytest.mark.parametrize("part", parts())
def test_the_steps_of_a_pattern_grow_no_faster_than_the_text(part: str) -> None:
    found = {pattern.place: (pattern.pattern, growing(pattern)) for pattern in patterns(part)}

    assert {place: item for place, item in found.items() if item[1] is not None} == {}


def test_each_pattern_of_the_tree_is_found() -> None:
    """Patterns are looked for as calls of ``re``: under no other name, and of no other engine."""
    otherwise = re.compile(r"^\s*(from re import|import re\b(?!\n)|(from|import) regex\b)", re.MULTILINE)
    roots = [Path(str(package.__file__)).parent for package in (rebalancer, rebalancer_demo)]
    paths = [path for root in roots for path in root.rglob("*.py")]
    assert [str(path) for path in paths if otherwise.search(path.read_text())] == []
    assert sum(len(patterns(part)) for part in parts()) > 70


@rows(
    "pattern, method",
    [
        (r"(\d+\.?\d*|\.\d+)([a-z])?", "fullmatch"),
        (r"#[^\n]*?([A-Za-z][A-Za-z0-9_-]*)[\"']?\s*[:=]\s*\S", "search"),
        (r"\[\s*((?:\d+(?:ms|[smhdwy]))+)\s*(?::[^\]]*)?\]", "search"),
        (r"(a+)+b", "fullmatch"),
        (r"([^=!\s,()]+)\s+(in|notin)\s*\(([^()]*)\)", "search"),
        (r"^\s+|\s+$", "search"),
    ],
)
def test_a_pattern_whose_steps_grow_faster_is_found(pattern: str, method: str) -> None:
    assert growing(Used("test", pattern, 0, method)) is not None


@rows(
    "pattern, unbounded",
    [(r"[a-z]{1,9}(?:b|c)?", False), (r"(?=(a{2,}))", True), (r"(?:x|(y*))", True), (r"(?!a++)", True)],
)
def test_only_a_pattern_whose_repeats_all_have_a_bound_is_not_tried(pattern: str, unbounded: bool) -> None:
    assert repeats_without_bound(parser.parse(pattern)) is unbounded


@rows(
    "pattern, text, matches",
    [
        (r"a*+b|ac", "aaab", True),
        (r"(?:x|yy){2,3}", "xyyx", True),
        (r"(?<!\w)\w++\s*:", "abc :", True),
        (r"(?>a|ab)c", "abc", False),
        (r"(?i)[^b]B", "Ab", True),
        (r"\d{1,3}(?:\.\d*)?%", "12.5%", True),
        (r".+?(?=\$)\$", "ab$", True),
    ],
)
def test_the_counter_matches_what_the_interpreter_matches(pattern: str, text: str, matches: bool) -> None:
    found: list[int] = []
    counter = StepCounter(pattern)

    def ended(end: int) -> bool:
        found.append(end)
        return end == len(text)

    counter._counted(text, 10_000, (0,), ended)

    assert (len(text) in found) == matches == (re.fullmatch(pattern, text) is not None)


def test_patterns_of_the_policy_are_matched_by_an_engine_whose_time_is_linear() -> None:
    """pydantic's own engine is; Python's, which a model may choose, is not."""
    assert not [name for name, tree in sources() if "python-re" in ast.unparse(tree)]
