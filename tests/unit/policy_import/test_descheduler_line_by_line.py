"""What an import says of every line: nothing of a profile is left out in silence, and nothing is invented."""

from __future__ import annotations

from rebalancer.documents import to_yaml
from rebalancer.planning.strategies.duplicates import Duplicates
from rebalancer.planning.strategies.lifetime import Lifetime, LifetimeSettings
from rebalancer.planning.strategies.topology_spread import TopologySpread, TopologySpreadSettings
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.policy_import import Imported, import_policy
from tests.rows import rows

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def imported(text: str) -> tuple[RebalancePolicy, Imported]:
    found = import_policy(text, "theirs.yaml")
    return parse_policy(to_yaml(found.policy), "ours.yaml").policy, found


def said(found: Imported, key: str) -> list[str]:
    return [f"{note.fate}: {note.text}" for note in found.notes if note.key == key]


def a_profile(points: str, configured: str = "[]") -> str:
    return f"{HEAD}profiles: [{{name: one, pluginConfig: {configured}, plugins: {points}}}]\n"


@rows(
    "points, key, expected",
    [
        ("{sort: {enabled: [ByAge]}}", "ByAge", "no effect: descheduler orders nothing by this"),
        ("{filter: {enabled: [DefaultEvictor]}}", "DefaultEvictor", "mapped: evictable"),
        ("{preevictionfilter: {enabled: [DefaultEvictor]}}", "DefaultEvictor", "mapped: evictable"),
        ("{filter: {enabled: [MyFilter]}}", "MyFilter", "not mapped: no setting of ours does this"),
        ("{later: {enabled: [X]}}", "X", "not mapped: no setting of ours does this"),
        (
            "{balance: {enabled: [RemoveDuplicates], disabled: [PodLifeTime]}}",
            "PodLifeTime",
            "no effect: descheduler turns nothing off by this",
        ),
    ],
)
def test_every_extension_point_of_a_profile_has_a_note(points: str, key: str, expected: str) -> None:
    assert said(imported(a_profile(points))[1], key) == [expected]


def test_a_plugin_that_is_configured_and_not_enabled_does_nothing_as_there() -> None:
    policy, found = imported(a_profile("{}", "[{name: RemoveDuplicates, args: {}}]"))

    assert Duplicates.settings_in(policy) is None
    assert said(found, "RemoveDuplicates") == ["no effect: the profile does not enable this plugin"]


@rows(
    "plugin, difference",
    [
        ("RemovePodsViolatingTopologySpreadConstraint", "protected ones as well"),
        ("RemovePodsViolatingInterPodAntiAffinity", "pods of one name in two namespaces are two pods"),
        ("RemovePodsViolatingNodeAffinity", "no pod comes straight back"),
        ("RemovePodsViolatingNodeTaints", "a cordon never does"),
        ("HighNodeUtilization", "at most 2 in a run (maxNodes)"),
        ("HighNodeUtilization", "none younger than 1h (minNodeAge)"),
    ],
)
def test_each_deliberate_difference_is_said_where_the_plugin_is_imported(
    plugin: str, difference: str
) -> None:
    _, found = imported(a_profile(f"{{deschedule: {{enabled: [{plugin}]}}}}"))

    assert [difference in text for text in said(found, plugin)] == [True]
    assert "Which pods move under limits is not left to chance" in found.header().replace("\n# ", " ")
    assert "; pods of Jobs (evictable.jobs) and those annotated" in found.header().replace("\n# ", " ")
    assert "stay until scheduler.configMap names the configuration" in found.header().replace("\n# ", " ")


def test_words_of_the_first_version_mean_what_they_meant() -> None:
    policy, found = imported("""
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
strategies:
  PodLifeTime: {enabled: true, params: {podLifeTime: {podStatusPhases: [Pending]}}}
  RemovePodsViolatingTopologySpreadConstraint: {enabled: true, params: {includeSoftConstraints: true}}
""")

    assert found.warning == ""
    assert Lifetime.settings_in(policy) == LifetimeSettings(states=("Pending",))
    assert TopologySpread.settings_in(policy) == TopologySpreadSettings(
        constraints=("DoNotSchedule", "ScheduleAnyway")
    )


def test_what_several_profiles_of_openshift_say_alike_is_said_once() -> None:
    _, found = imported("""
apiVersion: operator.openshift.io/v1
kind: KubeDescheduler
spec:
  profiles: [AffinityAndTaints, TopologyAndDuplicates]
  profileCustomizations: {namespaces: {excluded: [payments]}}
""")

    assert said(found, "exclude") == ["mapped: evictable.namespaces.exclude"]


def test_protections_that_name_none_change_nothing() -> None:
    evictor = "[{name: DefaultEvictor, args: {podProtections: {}, evictLocalStoragePods: true}}]"
    policy, found = imported(a_profile("{balance: {enabled: [RemoveDuplicates]}}", evictor))

    assert found.warning == ""
    assert "LocalStorage" not in policy.evictable.protect
