from __future__ import annotations

from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.profiles import ExtensionPoint, Input, PluginDescription
from rebalancer.profiles.types import RawArguments
from rebalancer.scheduling.plugins.node_properties.node_affinity import NodeAffinityArguments
from rebalancer.scheduling.registry import load_configuration
from tests.rows import rows
from tests.unit.profiles.builders import (
    K3S_TRIMARAN,
    SCORE,
    V1_WEIGHTS,
    configured,
    names,
    plugins_refusal,
    refusal,
    text_of,
)


def test_an_unknown_enabled_plugin_says_which_where_and_how_to_supply_it() -> None:
    text = K3S_TRIMARAN.replace("enabled:\n      - name: TargetLoadPacking", "enabled:\n      - name: Xyzzy")
    with pytest.raises(InputError) as caught:
        load_configuration(text, "scheduler-config.yaml")
    assert str(caught.value) == (
        "scheduler-config.yaml:11:15 profiles[1].plugins.score.enabled[0].name: unknown plugin Xyzzy "
        "(describe it by scheduler.mirror of the policy if it scores by a query of Prometheus, else through "
        "an entry point, or accept it as neutral with --assume-neutral Xyzzy, or scheduler.assumeNeutral of "
        "the policy)"
    )


def test_all_unknown_plugins_of_a_profile_are_named_at_once_and_none_taken_for_one_of_another_name() -> None:
    others = names("CapacityScheduling", "NodeResourceTopologyMatch", "NodeName")
    message = plugins_refusal(multiPoint={"enabled": others}, permit={"enabled": names("Kuscia")})
    assert "enabled[0].name: unknown plugin CapacityScheduling (describe it" in message
    assert (
        "accept these as neutral with --assume-neutral CapacityScheduling --assume-neutral "
        "NodeResourceTopologyMatch --assume-neutral Kuscia, or scheduler.assumeNeutral"
    ) in message


def test_a_plugin_of_kubernetes_that_is_not_modelled_is_not_called_unknown() -> None:
    message = plugins_refusal(score={"enabled": names("NodeLabel")})
    assert "plugin NodeLabel, which older versions of Kubernetes have, is not modelled" in message
    assert "--assume-neutral NodeLabel" in message


def test_a_misspelt_plugin_is_suggested() -> None:
    assert "did you mean TargetLoadPacking?" in plugins_refusal(score={"enabled": names("TargetLoadPaking")})


def test_a_plugin_of_an_older_version_is_named_as_such() -> None:
    message = plugins_refusal(score={"enabled": names("NodeResourcesLeastAllocated")})
    assert "unknown to v1; it exists in v1beta1" in message


def test_a_plugin_assumed_neutral_is_accepted_and_recorded() -> None:
    sets = {"score": {"enabled": [{"name": "Mine", "weight": 3}]}, "permit": {"enabled": names("Gang")}}
    profile = {"plugins": sets, "pluginConfig": [{"name": "Mine", "args": {"a": 1}}]}
    configuration = configured(profile, assume_neutral=["Mine", "Gang", "Unused"])
    assert configuration.assumed_neutral == ("Gang", "Mine")
    assert configuration.profiles[0].weights["Mine"] == 3
    assert configuration.profiles[0].enabled(ExtensionPoint.PERMIT) == ("Gang",)
    assert configuration.profiles[0].argument("Mine") == RawArguments(values={"a": 1})
    assert any("Mine" in warning for warning in configuration.warnings)


@rows(
    "end, said",
    [
        ("  plugins:\n", ("file.yaml:5: ends with 'plugins:' and no value: is the file cut off?",)),
        (
            "- schedulerName: b\n  plugins:",
            ("file.yaml:6: ends with 'plugins:' and no value: is the file cut off?",),
        ),
        ("  plugins:\n  percentageOfNodesToScore: 5\n# the end:\n", ()),
        ("  plugins: null\n", ()),
    ],
)
def test_a_text_that_ends_with_a_key_is_said_to_be_cut_off(end: str, said: tuple[str, ...]) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text = f"{head}profiles:\n- schedulerName: a\n{end}"
    assert load_configuration(text, "file.yaml").warnings == said


def test_a_third_party_plugin_can_be_described() -> None:
    mine = PluginDescription("Mine", frozenset((SCORE,)), NodeAffinityArguments, frozenset((Input.SERVICES,)))
    profile = {"plugins": {"multiPoint": {"enabled": names("Mine")}}}
    configuration = configured(profile, extra_plugins=[mine])
    assert configuration.profiles[0].enabled(SCORE)[-1] == "Mine"
    assert configuration.profiles[0].argument("Mine") == NodeAffinityArguments()
    assert configuration.assumed_neutral == ()


@rows(
    "sets, message",
    [
        (
            {"filter": {"enabled": names("ImageLocality")}},
            "ImageLocality does not implement filter (it implements score)",
        ),
        (
            {"score": {"enabled": names("ImageLocality", "ImageLocality")}},
            "enabled[1].name: plugin ImageLocality is",
        ),
        ({"multiPoint": {"enabled": names("Peaks", "Peaks")}}, "plugin Peaks is enabled twice at multiPoint"),
        ({"bind": {"disabled": names("*")}}, "a bind plugin must be enabled"),
        ({"queueSort": {"disabled": names("*")}}, "exactly one queueSort plugin must be enabled, not none"),
        ({"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}, "weight: should be greater than"),
        ({"score": {"enabled": [{"name": "ImageLocality", "weight": 2**31}]}}, "weight: should be less than"),
        ({"score": {"enabled": names("*")}}, 'only disabled may list "*"'),
        ({"scores": {}}, "profiles[0].plugins.scores: unknown field (did you mean score?)"),
        ({"score": {"enable": []}}, "plugins.score.enable: unknown field (did you mean enabled?)"),
        ({"score": {"enabled": [{"weight": 1}]}}, "enabled[0].name: is required"),
    ],
)
def test_plugin_sets_the_scheduler_would_not_start_with_are_refused(
    sets: dict[str, Any], message: str
) -> None:
    assert message in plugins_refusal(**sets)


SAME_QUEUE_SORT = {"queueSort": {"enabled": names("PrioritySort"), "disabled": names("*")}}
NO_CANDIDATES = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}


@rows(
    "profiles, message",
    [
        (
            [{"schedulerName": "a"}, {"schedulerName": "a"}],
            "profiles[1].schedulerName: schedulerName a is already taken",
        ),
        ([{"schedulerName": "a"}, {}], "profiles[1]: schedulerName is required"),
        ([{"schedulerName": ""}], "profiles[0].schedulerName: must not be empty"),
        (
            [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": SAME_QUEUE_SORT}],
            "profiles[1].plugins.queueSort: must be written the same in all profiles",
        ),
        (
            [{"pluginConfig": [{"name": "DefaultPreemption", "args": NO_CANDIDATES}]}],
            "minCandidateNodesPercentage and minCandidateNodesAbsolute must not both be 0",
        ),
        (
            [{"percentageOfNodesToScore": 101}],
            "percentageOfNodesToScore: should be less than or equal to 100",
        ),
        (
            [{"pluginConfig": [{"name": "NodeName"}, {"name": "NodeName"}]}],
            "pluginConfig[1].name: NodeName is configured",
        ),
        ([{"plugin": {}}], "profiles[0].plugin: unknown field (did you mean plugins?)"),
        ([{"plugins": {"score": {"enabled": names("NetworkTraffic")}}}], "ip: is required"),
    ],
)
def test_profiles_the_scheduler_would_not_start_with_are_refused(profiles: list[Any], message: str) -> None:
    assert message in refusal(*profiles)


@rows(
    "text, message",
    [
        ("", "is not a KubeSchedulerConfiguration"),
        (
            "kind: ConfigMap\n",
            "c:1:7 kind: should be KubeSchedulerConfiguration, not ConfigMap (give the text",
        ),
        (text_of(version="v1alpha1"), "kubescheduler.config.k8s.io/v1alpha1 is not a version we read"),
        (text_of(version="v2"), "known: kubescheduler.config.k8s.io/v1, "),
        (
            "apiVersion: v1\nkind: Policy\n",
            "not Policy (its predicates and priorities are not modelled",
        ),
        (text_of(leaderElection={"leaderElected": False}), "unknown field (did you mean leaderElect?)"),
        (text_of(leaderElection={"leaderElect": "false"}), "leaderElection.leaderElect: "),
        *(
            (text_of(version=version, healthzBindAddress=""), f"healthzBindAddress: is unknown to {version}")
            for version in ("v1beta3", "v1")
        ),
        *(
            (
                text_of(version=version, profiles=[{"percentageOfNodesToScore": 50}]),
                f"profiles[0].percentageOfNodesToScore: profiles of {version} have none",
            )
            for version in ("v1beta1", "v1beta2", "v1beta3")
        ),
        (text_of(parallelism=0), "parallelism: should be greater than or equal to 1"),
        (text_of(percentageOfNodesToScore=-1), "percentageOfNodesToScore: "),
        (text_of(leaderElect=True), "leaderElect: unknown field (did you mean leaderElection?)"),
        (
            text_of(extenders=[{"urlPrefix": "x", "wieght": 1}]),
            "extenders[0].wieght: unknown field (did you mean weight?)",
        ),
        (
            text_of(extenders=[{"urlPrefix": "x", "prioritizeVerb": "rank"}]),
            "extenders[0]: weight must be positive where there is a prioritizeVerb",
        ),
        (text_of(healthzBindAddress=""), "healthzBindAddress: is unknown to v1 (remove it"),
    ],
)
def test_other_documents_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_configuration(text, "c")
    assert message in str(caught.value)


def test_arguments_of_a_plugin_that_takes_none_do_nothing_as_in_the_scheduler() -> None:
    found = configured({"pluginConfig": [{"name": "NodeName", "args": {"a": 1}}]})
    assert found.warnings[0].endswith("NodeName takes no arguments: these do nothing")
    assert dict(found.profiles[0].weights) == V1_WEIGHTS


def test_a_whole_number_may_be_written_with_a_point_as_templates_do() -> None:
    enabled = [{"name": "ImageLocality", "weight": 1.048576e6}]
    assert (
        configured({"plugins": {"score": {"enabled": enabled}}}).profiles[0].weights["ImageLocality"]
        == 1 << 20
    )
    message = plugins_refusal(score={"enabled": [{"name": "ImageLocality", "weight": 1.5}]})
    assert "weight: should be a valid integer, not 1.5" in message


def test_before_v1beta3_the_default_queue_sort_may_be_written_by_some_profiles() -> None:
    written = {"queueSort": {"enabled": names("PrioritySort")}}
    text = text_of({"schedulerName": "a"}, {"schedulerName": "b", "plugins": written}, version="v1beta2")
    assert load_configuration(text, "c").scheduler_names == ("a", "b")


def test_nulls_are_absent_fields() -> None:
    text = text_of(
        {"schedulerName": "a", "plugins": None, "pluginConfig": None}, extenders=None, parallelism=None
    )
    assert dict(load_configuration(text, "c").profiles[0].weights) == V1_WEIGHTS


def test_extenders_are_kept() -> None:
    extender: dict[str, Any] = {
        "urlPrefix": "http://e",
        "filterVerb": "filter",
        "enableHTTPS": False,
        "httpTimeout": "1s",
    }
    extender |= {"managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}], "weight": 3}
    (found,) = load_configuration(text_of(extenders=[extender]), "c").extenders
    assert (found.url_prefix, found.filter_verb, found.weight) == ("http://e", "filter", 3)
    assert found.managed_resources[0].ignored_by_scheduler


def test_the_profile_percentage_is_kept_apart_from_the_global_one() -> None:
    configuration = load_configuration(
        text_of({"percentageOfNodesToScore": 30}, percentageOfNodesToScore=50), "c"
    )
    assert configuration.profiles[0].percentage_of_nodes_to_score == 30
    assert configuration.percentage_of_nodes_to_score == 50
