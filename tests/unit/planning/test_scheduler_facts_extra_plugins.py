"""Plugins of third parties: the worked example of the documentation, and entry points that are no good."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from rebalancer.cli.program import main
from rebalancer.errors import InputError
from rebalancer.observe.configuration import InstalledPlugins
from rebalancer.planning.scheduler_facts import mirrored_plugins
from rebalancer.policy.policy_file import default_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import PluginQuery
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.plugins.prometheus_score import Definition, PrometheusScore, described_score
from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_node
from tests.integration.cli.dumps import a_hot_cluster, write_dump

EXAMPLE = Path(__file__).parents[3] / "docs" / "plugins" / "rack_balance"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: RackBalance, weight: 3}]}}
  pluginConfig: [{name: RackBalance, args: {rackLabel: rack}}]
"""


def install(folder: Path, entry_points: str, name: str = "example") -> None:
    """What an installer leaves beside a package."""
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[rebalancer.plugins]\n{entry_points}\n")


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    written = (EXAMPLE / "pyproject.toml").read_text()
    install(tmp_path, "rack_balance = rack_balance:RackBalance")
    assert 'rack_balance = "rack_balance:RackBalance"' in written
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("rack_balance", None)


def _cluster_with_racks(folder: Path) -> Path:
    items = a_hot_cluster()
    racks = {"n0": "a", "n1": "a", "n2": "b"}
    items["nodes"] = [a_node(name, labels={"rack": rack}) for name, rack in racks.items()]
    dump = write_dump(folder, items)
    (dump / "scheduler-config.yaml").write_text(CONFIGURATION)
    return dump


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_the_documented_plugin_decides_where_pods_land(example: None, tmp_path: Path) -> None:
    dump = _cluster_with_racks(tmp_path / "dump")
    result = _run("nodes", "--from", str(dump), "-o", "json")
    assert result.exit_code == 0, result.stderr
    scores = {node["name"]: node["score"] for node in json.loads(result.stdout)["nodes"]}
    assert scores == {"n0": 0, "n1": 0, "n2": 100}


def test_without_it_the_configuration_is_refused_with_the_ways_on(tmp_path: Path) -> None:
    dump = _cluster_with_racks(tmp_path / "dump")
    result = _run("plan", "--from", str(dump))
    assert result.exit_code == 2
    assert "unknown plugin RackBalance" in result.stderr
    assert "--assume-neutral RackBalance" in result.stderr


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("", "cannot be loaded: AttributeError"),
        ("raise OSError('no licence')", "cannot be loaded: OSError: no licence"),
        ("FACTORY = 7", "is int, not a plugin factory"),
        (
            "class F:\n description = 3\n def make(self, arguments, inputs): ...\nFACTORY = F()",
            "its description is int, not a PluginDescription",
        ),
        (
            "from rebalancer.scheduling.registry import CATALOGUE\n"
            "class F:\n description = CATALOGUE['Peaks']\n"
            " def make(self, arguments, inputs): ...\nFACTORY = F()",
            "plugin Peaks is one of those known already",
        ),
    ],
)
def test_a_broken_entry_point_is_one_line_that_names_it(
    code: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"broken_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(code)
    install(tmp_path, f"ours = {module}:FACTORY")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError) as failure:
        InstalledPlugins()()
    line = str(failure.value)
    assert line.startswith(f"entry point ours = {module}:FACTORY of example 1.0: {complaint}")
    assert "\n" not in line


def _making(value: str) -> str:
    return (
        "from rebalancer.profiles import ExtensionPoint, PluginDescription\n"
        "class F:\n"
        " description = PluginDescription('RackBalance', frozenset({ExtensionPoint.SCORE}))\n"
        f" def make(self, arguments, inputs): return {value}\n"
        "FACTORY = F()"
    )


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        ("1 / 0", "cannot make plugin RackBalance: ZeroDivisionError"),
        ("None", "makes NoneType, not a Plugin"),
        (
            "__import__('rebalancer').scheduling.plugins.pod_capacity_of_node.PodCapacityOfNode()",
            "describes plugin RackBalance, but makes one named PodCapacityOfNode",
        ),
    ],
)
def test_a_factory_that_fails_is_one_line_that_names_it(
    made: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"failing_{abs(hash(made))}"
    (tmp_path / f"{module}.py").write_text(_making(made))
    install(tmp_path, f"ours = {module}:FACTORY")
    monkeypatch.syspath_prepend(str(tmp_path))
    result: Any = _run("plan", "--from", str(_cluster_with_racks(tmp_path / "dump")))
    assert result.exit_code == 2
    assert f"entry point ours = {module}:FACTORY of example 1.0: {complaint}" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_two_entry_points_may_not_describe_the_same_plugin(
    example: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    install(other, "again = rack_balance:RackBalance", name="other")
    monkeypatch.syspath_prepend(str(other))
    with pytest.raises(InputError, match="plugin RackBalance is described twice"):
        InstalledPlugins()()


def test_installed_plugins_are_imported_only_when_a_configuration_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "expensive.py").write_text("raise AssertionError('imported')")
    install(tmp_path, "ours = expensive:FACTORY")
    monkeypatch.syspath_prepend(str(tmp_path))
    header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

    ours = load_configuration(f"{header}profiles:\n- {{}}\n", "ours", installed_plugins=InstalledPlugins())
    assert ours.extra_plugins == {}
    for where in ("enabled", "disabled"):
        named = f"{header}profiles:\n- plugins: {{score: {{{where}: [{{name: RackBalance}}]}}}}\n"
        with pytest.raises(InputError, match="entry point ours = expensive:FACTORY"):
            load_configuration(named, "theirs", installed_plugins=InstalledPlugins())
    configured = f"{header}profiles:\n- pluginConfig: [{{name: RackBalance, args: {{}}}}]\n"
    with pytest.raises(InputError, match="entry point ours = expensive:FACTORY"):
        load_configuration(configured, "theirs", installed_plugins=InstalledPlugins())


def test_a_mirrored_plugin_is_described_as_the_model_describes_it() -> None:
    policy = default_policy().policy
    score = {"address": "http://prometheus", "query": "up", "missingScore": 3}
    changed = {**policy.model_dump(mode="json", by_alias=True, exclude_none=True)}
    changed["scheduler"]["mirror"] = [{"plugin": "NetworkTraffic", "prometheusScore": score}]
    (mirrored,) = mirrored_plugins(RebalancePolicy.model_validate(changed).schedulers[0])
    query = PluginQuery("http://prometheus", "up", "node")
    definition = Definition("NetworkTraffic", query, missing_score=3)
    expected = described_score(definition)
    assert replace(mirrored, make=None) == replace(expected, make=None)
    assert mirrored.make is not None
    assert isinstance(mirrored.make(None, PluginInputs()), PrometheusScore)
