"""The Helm chart as text: what can be held without Helm. tests/e2e/test_chart.py renders and installs it."""

from __future__ import annotations

import json
import re
from typing import Any

import click
import yaml

from rebalancer import __version__
from rebalancer.cli.program import main
from rebalancer.policy.policy_file import load_policy, parse_policy, schema
from tests.rows import rows
from tests.unit.manifests.documents import ACTIVE, BASE, ROOT, of_kind, pod_template, read
from tools.pages.chart import CLOSED

CHART = ROOT / "charts" / "rebalancer"
VALUES = read(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = "".join(
    path.read_text() for path in sorted((CHART / "templates").glob("*")) if path.suffix in (".yaml", ".tpl")
)


def test_as_shipped_it_only_plans() -> None:
    assert VALUES["act"] is False
    assert VALUES["kind"] == "CronJob"


def test_chart_and_program_have_one_version() -> None:
    chart = read(CHART / "Chart.yaml")

    assert chart["version"] == chart["appVersion"] == __version__


def test_it_starts_with_the_policy_of_the_kustomization() -> None:
    text = yaml.safe_dump(
        {"apiVersion": "rebalancer/v1alpha1", "kind": "RebalancePolicy", **VALUES["policy"]}
    )

    assert parse_policy(text, "values.yaml").policy == load_policy(BASE / "policy.yaml").policy


def test_it_starts_the_program_with_the_options_of_the_kustomization() -> None:
    for cron_job in (of_kind(BASE, "CronJob"), read(ACTIVE / "cronjob-run.yaml")):
        (container,) = pod_template(cron_job)["containers"]
        options = [argument.split("=")[0] for argument in container["args"] if argument.startswith("--")]

        assert [option for option in options if f"- {option}=" not in TEMPLATES] == []


def test_it_starts_the_service_with_options_that_it_takes() -> None:
    service = main.get_command(click.Context(main), "serve")
    assert service is not None
    known = {name for parameter in service.params for name in parameter.opts}

    assert known >= {"--listen", "--act", "--policy", "--lease", "--state-config-map", "--max-duration"}
    assert "- serve\n" in TEMPLATES
    assert "- --listen=:8080\n" in TEMPLATES


def test_runs_may_read_the_lease_and_the_state_of_their_release_and_no_other() -> None:
    assert "- --lease={{ $name }} " in TEMPLATES
    rules = yaml.safe_load((CHART / "files" / "own.yaml").read_text())
    names = [name for rule in rules for name in rule.get("resourceNames", ()) if "get" in rule["verbs"]]
    assert names == ["rebalancer", "rebalancer-state"]
    assert all(f'replace "[{name}]"' in TEMPLATES for name in names)


def test_every_value_is_used_and_every_value_used_is_there() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    used = set(re.findall(r"\.Values\.(\w+)", TEMPLATES + helpers))  # helpers hold the pod

    assert used == set(VALUES)


def test_every_value_has_its_meaning_beside_it() -> None:
    closed = CLOSED - {""}
    without = [key for key, value in SCHEMA["properties"].items() if not value.get("description")]
    inner = [
        f"{key}.{name}"
        for key in closed
        for name, value in SCHEMA["properties"][key]["properties"].items()
        if not value.get("description")
    ]

    assert [key for key in without if key not in closed] == []
    assert inner == []


def test_the_schema_knows_every_key_of_the_policy_and_no_other() -> None:
    policy = SCHEMA["properties"]["policy"]

    assert set(policy["properties"]) == set(schema()["properties"])
    assert policy["additionalProperties"] is False
    assert set(SCHEMA["$defs"]) == set(schema()["$defs"])


def _patterns(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in _patterns(item)]
    if not isinstance(value, dict):
        return []
    here = [value["pattern"]] if isinstance(value.get("pattern"), str) else []
    return here + list(value.get("patternProperties", {})) + _patterns(list(value.values()))


def test_its_patterns_are_ones_that_go_understands() -> None:
    assert [pattern for pattern in _patterns(SCHEMA) if re.search(r"\(\?[=!<]|\\\d", pattern)] == []


@rows("text", ["5m", "90s", "1h30m", "500ms", "1.5h", "0s"])
def test_a_pattern_without_lookaround_still_allows_what_the_program_does(text: str) -> None:
    pattern = SCHEMA["$defs"]["Execution"]["properties"]["waveTimeout"]["pattern"]

    assert re.match(pattern, text)


@rows("text", ["soon", "5", "5m5h", "5mx"])
def test_a_pattern_without_lookaround_still_refuses_what_the_program_does(text: str) -> None:
    pattern = SCHEMA["$defs"]["Execution"]["properties"]["waveTimeout"]["pattern"]

    assert not re.match(pattern, text)
