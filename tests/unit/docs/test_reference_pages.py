"""The pages made from tables leave nothing of them out, and say what each thing means."""

from __future__ import annotations

import re
from pathlib import Path

from rebalancer.cluster.pods import HONOURED_ANNOTATIONS
from rebalancer.execution import events
from rebalancer.execution.outcomes import Stop
from rebalancer.policy.policy_file import default_policy, parse_policy, schema, shown
from rebalancer.state.results import Result
from tools.pages import outputs, policy_keys


def test_the_page_of_policy_keys_has_every_key_of_the_schema() -> None:
    last = {path.split(".")[-1].removesuffix("[]") for path in policy_keys.paths()}
    models = schema()["$defs"].values()

    assert {name for model in models for name in model.get("properties", {})} - last == set()


def test_the_page_of_policy_keys_has_the_alternatives_of_a_key() -> None:
    paths = policy_keys.paths()

    assert "hotNodes.any[].utilization" in paths
    assert "hotNodes.any[].deviation" in paths
    assert "load.sources[].prometheus.basicAuth.passwordFile" in paths
    assert "strategies.misplaced.excludedTaints" in paths


def test_the_keys_of_a_selector_are_listed_once_and_the_other_places_name_it() -> None:
    page = policy_keys.policy_page()

    assert page.count("Selector.matchLabels` |") == 1
    assert "| `evictable.windows[].nodeSelector` | keys of `hotNodes.nodeSelector` |" in page
    assert (
        "| `limits.scoped[].nodeSelector`, `limits.scoped[].namespaces` | as in `evictable.windows[]` |"
        in page
    )


def test_every_default_of_the_page_is_one_a_policy_may_hold_as_it_is_printed() -> None:
    page = policy_keys.policy_page()
    value, _ = shown(default_policy().policy)

    for section, key in (("load", "maxAge"), ("load", "minCoverage"), ("limits", "perWorkload")):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{section}.{key}` |")]
        assert f"| `{value[section][key]}` |" in row


def test_every_outcome_annotation_and_metric_has_a_meaning() -> None:
    assert all(f"| `{result.value}` | {result.meaning} |" in outputs.outputs_page() for result in Result)
    assert outputs.ANNOTATIONS.keys() | outputs.SET_BY_KUBERNETES == HONOURED_ANNOTATIONS
    assert "|  |\n" not in outputs.outputs_page()


def test_every_key_without_a_default_to_show_has_an_example() -> None:
    lines = policy_keys.policy_page().splitlines()
    rows = [[cell.strip() for cell in line.split(" | ")] for line in lines if line.startswith("| `")]
    leaves = [row for row in rows if "keys below" not in row[1] and "keys of" not in row[1]]

    assert len(leaves) > 100
    bare = [row[0] for row in leaves if row[1] in {"unset", "required", "`[]`", "`{}`", '`""`'}]
    assert bare == [], f"give each a value in {policy_keys.EXAMPLES}, and make pages"
    assert len([row for row in leaves if "e.g. `" in row[1]]) > 40


def test_every_example_is_of_a_policy_that_can_be_used() -> None:
    documents = policy_keys.EXAMPLES.read_text().split("---\n")

    assert len(documents) > 1
    for number, text in enumerate(documents, 1):
        parse_policy(text, f"example {number}")


def test_the_page_of_outputs_has_every_event_once_and_no_other_is_written() -> None:
    page = outputs.outputs_page()
    source = Path(events.__file__).read_text()

    for kind in events.EVENT_KINDS:
        assert page.count(f"| {kind.type} | `{kind.reason}` |") == 1
    written = set(re.findall(r"_write(?:_on_owners)?\(\s*([A-Z_]+),", source))
    assert {getattr(events, name) for name in written} == set(events.EVENT_KINDS)


def test_the_reasons_by_which_stopped_runs_are_counted_are_named() -> None:
    (row,) = [line for line in outputs.outputs_page().splitlines() if "`rebalancer_stops_total`" in line]
    assert [stop for stop in Stop if stop not in row] == []
