"""A policy is found wherever people keep it, and its notes have the places of that file."""

from __future__ import annotations

import json
import textwrap

import pytest

from rebalancer.errors import InputError
from rebalancer.policy_import import Imported, import_policy
from rebalancer.policy_import.mapping import KeyFate
from tests.rows import rows

PROFILES = """\
maxNoOfPodsToEvictPerNode: 3
profiles:
  - name: web
    pluginConfig: [{name: RemoveDuplicates}]
    plugins: {balance: {enabled: [RemoveDuplicates]}}
"""
POLICY = f"apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n{PROFILES}"


def indented(text: str, columns: int) -> str:
    return textwrap.indent(text, " " * columns)


VALUES = f"kind: CronJob\nschedule: '*/5 * * * *'\ndeschedulerPolicy:\n{indented(PROFILES, 2)}"
FILES = {
    "the policy itself": POLICY,
    "after another document": f"apiVersion: v1\nkind: Namespace\n---\n{POLICY}",
    "values of the chart": VALUES,
    "values of a chart around it": f"descheduler:\n{indented(VALUES, 2)}",
    "HelmRelease": f"kind: HelmRelease\nspec:\n  values:\n{indented(VALUES, 4)}",
    "Application": f"kind: Application\nspec:\n  source:\n    helm:\n      values: |\n{indented(VALUES, 8)}",
    "Application, as an object": (
        f"kind: Application\nspec:\n  sources:\n    - helm:\n        valuesObject:\n{indented(VALUES, 10)}"
    ),
    "HelmChart of k3s": f"kind: HelmChart\nspec:\n  valuesContent: |-\n{indented(VALUES, 4)}",
    "ConfigMap": f"kind: ConfigMap\ndata:\n  policy.yaml: |\n{indented(POLICY, 4)}",
    "ConfigMap with values": f"kind: ConfigMap\ndata:\n  values.yaml: |\n{indented(VALUES, 4)}",
    "List": f"kind: List\nitems:\n- kind: ConfigMap\n  data:\n    policy.yaml: |\n{indented(POLICY, 6)}",
}


def places_of(found: Imported) -> dict[str, tuple[int, int]]:
    places = {}
    for note in found.notes:
        _, line, column = note.where.rsplit(":", 2)
        places[note.key] = (int(line), int(column))
    return places


@rows("name", FILES)
def test_the_policy_is_found_and_its_keys_have_their_places_in_the_file(name: str) -> None:
    found = import_policy(FILES[name], "theirs.yaml")

    assert found.policy["strategies"] == {"duplicates": True}
    assert found.policy["limits"] == {"perNode": 3}
    assert found.policy["metadata"] == {"name": "web"}
    line, column = places_of(found)["maxNoOfPodsToEvictPerNode"]
    assert FILES[name].splitlines()[line - 1][column - 1 :] == "maxNoOfPodsToEvictPerNode: 3"


def test_a_text_in_quotes_is_found_too_at_the_place_where_it_begins() -> None:
    text = json.dumps({"kind": "ConfigMap", "data": {"policy.yaml": POLICY}})

    found = import_policy(text, "theirs.json")

    assert found.policy["strategies"] == {"duplicates": True}
    assert {line for line, _ in places_of(found).values()} == {1}


def test_aliases_and_numbers_are_those_of_kubectl() -> None:
    text = POLICY.replace("profiles:", "x: &few 010\nmaxNoOfPodsToEvictTotal: *few\nprofiles:")

    assert import_policy(text, "theirs.yaml").policy["limits"]["perRun"] == 8


def test_values_without_profiles_leave_them_to_the_chart_and_that_is_said() -> None:
    found = import_policy("deschedulerPolicy: {maxNoOfPodsToEvictPerNode: 3}\n", "values.yaml")

    assert any("leave profiles to the chart" in note.sentence for note in found.notes)
    assert found.warning.startswith("NOT EQUIVALENT")


@rows(
    "text, words",
    [
        ("", "holds nothing"),
        ("[1]", "this is not a mapping"),
        ("a: 1", "no kind of no apiVersion"),
        (POLICY + "---\n" + POLICY, "holds 2 policies: theirs.yaml:1:1, theirs.yaml:9:1"),
        ("kind: ConfigMap\napiVersion: v1\ndata: {}\n", "kubectl get configmap -n kube-system descheduler"),
        ("kind: HelmRelease\nspec: {valuesFrom: [{name: x}]}\n", "look into what spec.valuesFrom names"),
        ("kind: ConfigMap\ndata: {a: 'deschedulerPolicy: ['}\n", "ConfigMap of no apiVersion"),
        ("apiVersion: v9\nkind: DeschedulerPolicy\n", "DeschedulerPolicy of v9"),
    ],
)
def test_a_file_without_one_policy_says_what_it_holds(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        import_policy(text, "theirs.yaml")

    assert words in str(caught.value)


def fates(text: str) -> dict[str, KeyFate]:
    return {note.key: note.fate for note in import_policy(text, "theirs.yaml").notes}


def test_keys_that_descheduler_ignores_are_the_mistake_of_the_file() -> None:
    extra = "metadata: {name: x}\nnamespaces: {exclude: [a]}\nstrategies: {}\npodProtections: {a: b}\n"
    text = POLICY + extra + "evictLocalStoragePod: true\n"

    found = import_policy(text, "theirs.yaml")

    assert {key for key, fate in fates(text).items() if fate is KeyFate.IGNORED} == {
        "namespaces",
        "podProtections",
        "evictLocalStoragePod",
    }
    assert fates(text)["strategies"] is fates(text)["metadata"] is KeyFate.IDLE
    assert found.warning == ""
    assert found.mistakes.startswith(
        "descheduler ignores namespaces, podProtections, evictLocalStoragePod of"
    )
    assert "evictable.namespaces" in found.header()


@pytest.mark.parametrize("name", ["values of the chart", "HelmRelease", "ConfigMap with values"])
def test_arguments_beside_the_policy_are_ignored_by_the_chart_and_have_their_places(name: str) -> None:
    columns = {"values of the chart": 0, "HelmRelease": 4, "ConfigMap with values": 4}[name]
    text = FILES[name] + indented("evictLocalStoragePods: false\nnodeSelector: {a: b}\n", columns)

    found = import_policy(text, "theirs.yaml")

    assert found.mistakes.startswith("descheduler ignores evictLocalStoragePods of theirs.yaml")
    assert "nodeSelector" not in fates(text)  # which is where the chart's own pod runs
    assert places_of(found)["evictLocalStoragePods"] == (len(text.splitlines()) - 1, columns + 1)
    assert found.warning == ""


def test_keys_of_a_profile_that_descheduler_ignores_are_too() -> None:
    text = POLICY.replace("  - name: web", "  - name: web\n    labelSelector: {matchLabels: {a: b}}")

    assert fates(text)["labelSelector"] is KeyFate.IGNORED


def test_arguments_beside_args_are_ignored_too_and_what_is_about_the_operator_is_no_difference() -> None:
    beside = POLICY.replace("{name: RemoveDuplicates}", "{name: RemoveDuplicates, nodeFit: true}")
    operator = (
        "apiVersion: operator.openshift.io/v1\nkind: KubeDescheduler\n"
        "spec: {managementState: Managed, logLevel: Normal, profiles: [TopologyAndDuplicates]}\n"
    )

    assert fates(beside)["nodeFit"] is KeyFate.IGNORED
    assert import_policy(operator, "theirs.yaml").warning == ""
    removed = import_policy(operator.replace("Managed", "Removed"), "theirs.yaml")
    assert "managementState" in removed.warning


def of_prometheus(query: str, provider: str = "{url: 'http://prom.watch:9090'}") -> str:
    return f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{{source: Prometheus, prometheus: {provider}}}]
profiles:
  - name: load
    pluginConfig:
      - name: LowNodeUtilization
        args:
          thresholds: {{MetricResource: 20}}
          targetThresholds: {{MetricResource: 60}}
          metricsUtilization: {{source: Prometheus, prometheus: {{query: "{query}"}}}}
    plugins: {{balance: {{enabled: [LowNodeUtilization]}}}}
"""


def test_a_query_of_nodes_becomes_a_signal_and_its_server_a_source() -> None:
    found = import_policy(of_prometheus("busy:ratio"), "theirs.yaml")

    assert found.policy["load"] == {
        "signals": {"metricResource": {"query": "busy:ratio", "capacity": "1"}},
        "sources": [{"prometheus": {"address": "http://prom.watch:9090"}}],
    }
    (rule,) = found.policy["hotNodes"]["any"]
    assert rule["utilization"] == {"metricResource": 60}
    assert found.warning == ""


@rows(
    "text, key",
    [
        (of_prometheus("node_pressure_cpu"), "metricsUtilization"),
        (of_prometheus("busy", "{url: 'http://a', authToken: {secretReference: {name: t}}}"), "authToken"),
        (of_prometheus("busy", "{url: 'ftp://a'}"), "url"),
        (of_prometheus(""), "metricsUtilization"),
    ],
)
def test_what_a_policy_cannot_say_of_prometheus_is_not_equivalent(text: str, key: str) -> None:
    found = import_policy(text, "theirs.yaml")

    assert fates(text)[key] is KeyFate.DROPPED
    assert key in found.warning


@rows("profile", ["LifecycleAndUtilization", "LongLifecycle"])
@rows("chosen, percent", [("", 50), ("High", 70), ("Low", 30)])
def test_the_operator_ignores_deviations_where_it_relieves_nodes(
    profile: str, chosen: str, percent: int
) -> None:
    low = f", devLowNodeUtilizationThresholds: {chosen}" if chosen else ""
    found = import_policy(
        "apiVersion: operator.openshift.io/v1\nkind: KubeDescheduler\nmetadata: {name: cluster}\n"
        f"spec: {{profiles: [{profile}], profileCustomizations: {{devDeviationThresholds: Medium{low}}}}}\n",
        "theirs.yaml",
    )

    (rule,) = found.policy["hotNodes"]["any"]
    assert rule["utilization"] == dict.fromkeys(("cpu", "memory", "pods"), percent)


def test_every_note_is_a_sentence() -> None:
    for text in FILES.values():
        for note in import_policy(text, "theirs.yaml").notes:
            assert note.sentence.endswith(".")
            assert note.key in note.sentence
