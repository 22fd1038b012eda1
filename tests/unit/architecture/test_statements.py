"""A statement does one thing: what packs several into one is found here, before a reader has to unpack it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("rebalancer", "lab", "extender", "demo", "tools")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def packed(tree: ast.AST) -> Iterator[ast.AST]:
    """Assignments of unrelated values in one statement; a swap is one thing."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
            continue
        for target in node.targets:
            if not isinstance(target, ast.Tuple) or len(target.elts) != len(node.value.elts):
                continue
            if {ast.unparse(name) for name in target.elts} != {ast.unparse(value) for value in node.value.elts}:
                yield node


def multiplied(tree: ast.AST) -> Iterator[ast.AST]:
    """A text or a tuple times a condition, which stands for an ``if``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        sides = (node.left, node.right)
        is_text = any(
            isinstance(side, ast.Tuple | ast.JoinedStr)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in sides
        )
        is_condition = any(
            isinstance(side, ast.Compare | ast.BoolOp) or (isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.Not))
            for side in sides
        )
        if is_text and is_condition:
            yield node


def nested(tree: ast.AST) -> Iterator[ast.AST]:
    """Comprehensions within comprehensions."""
    for node in ast.walk(tree):
        if isinstance(node, _COMPREHENSIONS):
            for inner in ast.iter_child_nodes(node):
                if any(isinstance(part, _COMPREHENSIONS) for part in ast.walk(inner)):
                    yield node
                    break
