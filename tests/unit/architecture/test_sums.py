"""No stage of a plan leaves a sum of fractions to BLAS, whose order depends on the processor.

Plans are the same on every machine, byte for byte: ``weighted_sum`` adds in one order.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rebalancer

STAGES = ("cluster", "load", "scheduling", "planning")
PRODUCTS = frozenset({"dot", "vdot", "inner", "matmul", "tensordot", "einsum"})
TAINTS = "scheduling/plugins/node_properties/taint_toleration.py"
# Of integers and truth values, whose sums are the same in every order.
EXACT = {
    ("planning/landing/spread.py", "counts @ counts"),
    ("scheduling/lane_counts.py", "feasible @ members"),
    (TAINTS, "nodes.taint_counts @ (untolerated & hard).astype(np.int64)"),
    (TAINTS, "nodes.taint_counts[feasible] @ untolerated.astype(np.int64)"),
}


def products(tree: ast.AST) -> Iterator[str]:
    """The products of arrays in a module, as they are written."""
    for node in ast.walk(tree):
        is_operator = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
        if is_operator or (isinstance(node, ast.Attribute) and node.attr in PRODUCTS):
            yield ast.unparse(node)


def test_no_stage_of_a_plan_leaves_a_sum_of_fractions_to_blas() -> None:
    root = Path(str(rebalancer.__file__)).parent
    found = {
        (path.relative_to(root).as_posix(), product)
        for stage in STAGES
        for path in (root / stage).rglob("*.py")
        for product in products(ast.parse(path.read_text()))
    }
    assert found == EXACT
