"""A statement does one thing: what packs several into one is found here, before a reader has to unpack it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tests.rows import rows

ROOT = Path(__file__).parents[3]
FOLDERS = ("rebalancer", "lab", "extender", "demo", "tools")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Finds nodes among all nodes of a module.
Finder = Callable[[Iterable[ast.AST]], Iterator[ast.AST]]


def nodes_of(text: str) -> Sequence[ast.AST]:
    """All nodes of some source: to walk through a tree costs more than to parse it."""
    return tuple(ast.walk(ast.parse(text)))


def packed(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Assignments of unrelated values in one statement; a swap is one thing."""
    for node in nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        for target in node.targets:
            if not isinstance(target, ast.Tuple) or len(target.elts) != len(node.value.elts):
                continue
            names = {ast.unparse(name) for name in target.elts}
            if names != {ast.unparse(value) for value in node.value.elts}:
                yield node


def is_text(node: ast.expr) -> bool:
    """Whether it is written out as a text or a tuple."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.Tuple | ast.JoinedStr)


def is_condition(node: ast.expr) -> bool:
    """Whether it is true or false."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.Compare | ast.BoolOp)


def multiplied(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """A text or a tuple times a condition, which stands for an ``if``."""
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right)
            if any(map(is_text, sides)) and any(map(is_condition, sides)):
                yield node


def nested(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Comprehensions within comprehensions."""
    for node in nodes:
        if isinstance(node, _COMPREHENSIONS):
            parts = [part for part in ast.walk(node) if isinstance(part, _COMPREHENSIONS)]
            if len(parts) > 1:
                yield node


@dataclass(frozen=True)
class Places:
    """Where the code packs statements, by how that is found; and names that say nothing, by module."""

    packing: Mapping[Finder, Sequence[str]]
    empty_names: Mapping[str, Set[str]]


@functools.cache
def places() -> Places:
    """All of them together: each module is parsed once."""
    packing: dict[Finder, list[str]] = {packed: [], multiplied: [], nested: []}
    names = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = path.relative_to(ROOT).as_posix()
            nodes = nodes_of(path.read_text())
            for find, places_found in packing.items():
                places_found += [f"{module}: {ast.unparse(node)[:100]}" for node in find(nodes)]
            names[module] = empty_names(nodes)
    return Places(packing, names)


def test_no_statement_assigns_unrelated_values() -> None:
    assert places().packing[packed] == []


def test_no_text_is_multiplied_by_a_condition() -> None:
    assert places().packing[multiplied] == []


def test_no_comprehension_stands_within_another() -> None:
    assert places().packing[nested] == []


@rows(
    "find, text, number",
    [
        (packed, "a, b = x, y", 1),
        (packed, "a, b = b, a", 0),
        (packed, "row, column = index", 0),
        (multiplied, "text = ', more' * (len(rest) > 3)", 1),
        (multiplied, "text = '-' * width", 0),
        (nested, "[[cell for cell in row] for row in table]", 1),
        (nested, "[cell for row in table for cell in row]", 0),
    ],
)
def test_what_packs_a_statement_is_found(find: Finder, text: str, number: int) -> None:
    assert len(list(find(nodes_of(text)))) == number


# Names that say nothing of what a value is.
EMPTY_NAMES = frozenset({"found", "item", "kept", "known", "most", "one", "rest", "said", "thing", "wanted"})
_ALLOWED = {
    ("rebalancer/analysis.py", "kept"),  # the frame of the plan's ``kept``
    ("rebalancer/load/report.py", "known"),  # which nodes have a figure, as planning reads it
    ("rebalancer/planning/plan.py", "kept"),  # a field of the plan as JSON
}


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that variables, arguments, attributes, functions and classes are given."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def empty_names(nodes: Iterable[ast.AST]) -> Set[str]:
    """Those of constants, classes and type variables among them."""
    return {name for name in bound_names(nodes) if name.lstrip("_").lower() in EMPTY_NAMES}


def test_a_name_says_what_the_value_is() -> None:
    names = places().empty_names
    empty = {(module, name) for module in names for name in names[module]}
    assert empty == _ALLOWED


@rows(
    "text, names",
    [
        ("for item in pods: found = item", {"item", "found"}),
        ("def _known(self, most): self.kept = most", {"_known", "most", "kept"}),
        ("_MOST = 3\nclass Found: wanted: int", {"_MOST", "Found", "wanted"}),
        ("pods = response.items", set()),
        ("names = load.known", set()),
    ],
)
def test_a_name_that_says_nothing_is_recognised(text: str, names: set[str]) -> None:
    assert empty_names(nodes_of(text)) == names
