"""The embedded cluster reads selectors, quantities and dumps as the rest of the program does."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalancer.cluster.kinds import KINDS
from rebalancer.errors import InputError
from rebalancer_demo import sandbox as dumps
from rebalancer_demo.objects import StatusError, label_query, label_selector
from rebalancer_demo.resources import RESOURCES
from rebalancer_demo.usage import cpu_nano
from tests.rows import rows


@rows(
    "selector",
    [
        None,
        {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]},
        {"matchExpressions": [{"key": "app", "operator": "In"}]},
        {"matchLabels": ["app"]},
    ],
)
def test_no_selector_and_a_malformed_one_select_nothing(selector: dict[str, object] | None) -> None:
    assert not label_selector(selector)({"app": "web"})


def test_an_empty_selector_selects_everything() -> None:
    assert label_selector({})({})


@rows(
    "query, selected",
    [
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app!=web", False),
        ("app in (web, api)", True),
        ("app notin (web, api)", False),
        ("app,!tier", True),
        ("!app", False),
        ("tier=", False),
    ],
)
def test_a_query_selects_by_labels(query: str, selected: bool) -> None:
    assert label_query(query)({"metadata": {"labels": {"app": "web"}}}) is selected


def test_a_query_that_cannot_be_read_is_a_bad_request() -> None:
    with pytest.raises(StatusError, match="unable to parse requirement"):
        label_query("app in web")


@rows(
    "text, nano",
    [("1", 10**9), ("250m", 250_000_000), ("1n", 1), ("0.1n", 1), ("1.00000000000001", 10**9 + 1)],
)
def test_cpu_is_exact_and_rounded_up(text: str, nano: int) -> None:
    assert cpu_nano(text) == nano


def test_a_dump_larger_than_a_cluster_can_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(b'{"kind": "List", "items": []}')
    monkeypatch.setattr(dumps, "MAX_DUMP_BYTES", 10)

    with pytest.raises(InputError, match="larger than"):
        list(dumps.read_documents(path))


def test_every_kind_that_a_cluster_always_serves_is_served() -> None:
    served = {(row.api_version, row.plural, row.kind) for row in RESOURCES}
    wanted = {
        (kind.api_version, kind.resource or kind.plural, kind.name) for kind in KINDS if not kind.optional
    }

    assert wanted <= served
