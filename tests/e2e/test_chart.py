"""The Helm chart says what k8s/ says, refuses mistakes, installs, acts only if asked to, leaves nothing."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rebalancer.policy.policy_file import load_policy
from tests.conftest import SUMMARY
from tests.e2e import rights_cluster
from tests.e2e.api import Object, documents
from tests.e2e.command import COMMAND, confirmed
from tests.e2e.controlplane import ControlPlane
from tests.e2e.helm_program import IMAGE, helm
from tests.e2e.test_manifests import RecordProperty

ROOT = Path(__file__).parents[2]
# The chart of a release, packaged, where that is verified; it names the image by its digest.
CHART = Path(os.environ.get("REBALANCER_CHART") or ROOT / "charts" / "rebalancer")
IMAGE_DIGEST = os.environ.get("REBALANCER_IMAGE_DIGEST", "")
RICH = Path(__file__).parent / "chart_values.yaml"
NAME = "rebalancer"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("chart")) as started:
        started.start(controllers=False)
        started.start_controllers("--controllers=replicationcontroller-controller")
        yield started


def rendered(folder: Path, *options: str | Path) -> list[Object]:
    """The objects of a release named as the objects of k8s/ are."""
    served = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"  # from 1.30 on
    answer = helm(
        *("template", NAME, CHART, IMAGE, f"--namespace={NAME}", f"--api-versions={served}", *options),
        folder=folder,
    )
    assert answer.returncode == 0, answer.stderr
    return documents(answer.stdout)


def refusal(folder: Path, *options: str | Path) -> str:
    answer = helm("template", NAME, CHART, IMAGE, *options, folder=folder)
    assert answer.returncode != 0
    return answer.stderr


def compared(objects: list[Object]) -> dict[str, Object]:
    """What must be the same in both, by kind and name.

    Not the namespace, which Helm creates without a manifest; not the objects that runs write, which only a
    release holds; of labels the one that both have; how a changed policy reaches the pods; and whom admission
    narrows, which is one account of the chart, and of k8s/ that of its name in any namespace.
    """
    found = {}
    for item in map(copy.deepcopy, objects):
        name = item["metadata"]["name"]
        if item["kind"] in ("Namespace", "Lease") or name == f"{NAME}-state":
            continue
        _keep_our_label(item["metadata"])
        if item["kind"] == "NetworkPolicy":
            item["spec"]["podSelector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
        if item["kind"] == "ValidatingAdmissionPolicy":
            (whom,) = item["spec"].pop("matchConditions")
            assert NAME in whom["expression"]
        if item["kind"] == "ConfigMap":
            item["metadata"]["name"] = name = f"{NAME}-policy"
            item["data"] = {key: yaml.safe_load(text) for key, text in item["data"].items()}
        if item["kind"] in ("Deployment", "PodDisruptionBudget"):
            item["spec"]["selector"]["matchLabels"].pop("app.kubernetes.io/instance", None)
        if item["kind"] in ("CronJob", "Deployment"):
            spec = item["spec"]
            if item["kind"] == "CronJob":
                _keep_our_label(spec["jobTemplate"]["metadata"])
                spec = spec["jobTemplate"]["spec"]
            template = spec["template"]
            _keep_our_label(template["metadata"])
            template["metadata"].get("annotations", {}).pop("checksum/policy", None)
            for volume in template["spec"]["volumes"]:
                if volume["name"] == "policy":
                    volume["configMap"]["name"] = f"{NAME}-policy"
        if item["kind"].startswith(("Cluster", "Priority", "Validating")):
            item["metadata"].pop("namespace", None)
        found[f"{item['kind']} {name}"] = item
    return found


def _keep_our_label(metadata: Object) -> None:
    label = "app.kubernetes.io/name"
    metadata["labels"] = {key: value for key, value in metadata.get("labels", {}).items() if key == label}


@pytest.mark.parametrize(
    ("folder", "setting"),
    [
        ("base", "act=false"),
        ("overlays/active", "act=true"),
        ("overlays/service", "kind=Deployment,act=true"),
        ("components/network-policy", "networkPolicy.create=true"),
        ("components/surge", "act=true,allowSurge=true"),
        ("components/steer", "act=true,allowSteer=true"),
    ],
)
def test_the_chart_and_the_kustomization_say_the_same(
    cluster: ControlPlane, tmp_path: Path, folder: str, setting: str
) -> None:
    kustomization = tmp_path / "kustomization.yaml"
    place = Path(os.path.relpath(ROOT / "k8s", tmp_path))
    lists = {"resources": [str(place / folder)]}
    if folder.startswith("components"):
        under = "overlays/active" if setting.startswith("act=true") else "base"
        lists = {"resources": [str(place / under)], "components": [str(place / folder)]}
    kustomization.write_text(yaml.safe_dump({**lists, "namespace": NAME}))
    ours = compared(rendered(tmp_path, "--set", setting))
    theirs = compared(documents(cluster.kubectl("kustomize", str(tmp_path)).stdout))

    # k8s/base labels its objects, and the overlay's own have no label.
    for item in (*ours.values(), *theirs.values()):
        item["metadata"].pop("labels")
    assert sorted(ours) == sorted(theirs)
    assert ours == theirs


def test_the_chart_is_well_formed(tmp_path: Path) -> None:
    for values in ([], [f"--values={RICH}"]):
        answer = helm("lint", "--strict", CHART, *values, folder=tmp_path)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("service.enabled=true", "a CronJob cannot be scraped; set kind: Deployment, or metricsPush"),
        ("kind=Deployment,metricsPush=http://gateway:9091", "metricsPush: a Deployment is scraped"),
        ("prometheusRule.enabled=true", "there are no metrics to alert on or to show; set metricsPush"),
        ("grafanaDashboard.enabled=true", "there are no metrics to alert on or to show; set metricsPush"),
        ("metricsPush=http://gateway:9091", "a CronJob that only plans has no metrics; set act: true"),
        ("kind=Deployment,serviceMonitor.enabled=true", "serviceMonitor.enabled: it needs service.enabled"),
        ("scheduel=x", "additional properties 'scheduel' not allowed"),
        ("act=perhaps", "at '/act': got string, want boolean"),
        ("image.digest=latest", "at '/image/digest'"),
        ("policy.limit.perRun=3", "additional properties 'limit' not allowed"),
        ("policy.limits.perRun=many", "at '/policy/limits/perRun': got string, want integer"),
        ("policy.execution.waveTimeout=soon", "at '/policy/execution/waveTimeout'"),
        ("policy.execution.waveTimeout=", "at '/policy/execution/waveTimeout'"),
        ("cmdOptions.lease=mine", "cmdOptions.lease: the chart sets this option itself"),
        ("serviceAccount.create=false", "name the service account"),
    ],
)
def test_a_mistake_in_the_values_is_refused_before_anything_is_installed(
    tmp_path: Path, setting: str, words: str
) -> None:
    assert words in refusal(tmp_path, "--set", setting)


def test_every_value_leads_to_objects_that_the_api_server_takes(
    cluster: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    """Strictly: a field that its schema does not know is an error, as is a policy that rebalancer refuses."""
    objects = rendered(tmp_path, f"--values={RICH}")
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump_all(objects))
    cluster.kubectl("create", "namespace", NAME)
    try:
        applied = cluster.kubectl(
            "apply", "--server-side", "--validate=strict", "--dry-run=server", f"--filename={manifests}"
        )
    finally:
        cluster.kubectl("delete", "namespace", NAME)

    assert len(applied.stdout.splitlines()) == len(objects)
    assert {item["metadata"]["labels"]["team"] for item in objects} == {"platform"}
    (policy,) = [
        item["data"]["policy.yaml"] for item in objects if item["kind"] == "ConfigMap" and "data" in item
    ]
    (tmp_path / "policy.yaml").write_text(policy)
    loaded = load_policy(tmp_path / "policy.yaml").policy
    assert loaded.evictable.priority_below == 2_000_000_000
    assert loaded.limits.per_run == 5
    names = {
        name
        for item in objects
        if item["kind"] == "Role"
        for rule in item["rules"]
        for name in rule.get("resourceNames", ())
    }
    assert names == {"rebalancer-mover", "rebalancer-mover-state"}
    (reader,) = [item for item in objects if item["metadata"]["name"].endswith("-read") and "rules" in item]
    added = [rule["resourceNames"] for rule in reader["rules"][-2:]]
    assert added == [["my-scheduler", "named-by-the-policy"]] * 2
    record_property(SUMMARY, f"e2e chart: a value for every key: {len(objects)} objects accepted strictly")


@pytest.mark.parametrize("act", ["true", "false"])
def test_the_deployment_is_one_that_the_api_server_takes(
    cluster: ControlPlane, tmp_path: Path, act: str
) -> None:
    """Strictly, but for the kinds of the Prometheus Operator, which this control plane does not have."""
    settings = f"kind=Deployment,act={act},service.enabled=true,networkPolicy.create=true"
    settings += ",serviceMonitor.enabled=true,podMonitor.enabled=true,prometheusRule.enabled=true"
    objects = rendered(tmp_path, "--set", f"{settings},grafanaDashboard.enabled=true")
    ours = [item for item in objects if not item["apiVersion"].startswith("monitoring.coreos.com/")]
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump_all(ours))
    cluster.kubectl("create", "namespace", NAME)
    try:
        applied = cluster.kubectl(
            "apply", "--server-side", "--validate=strict", "--dry-run=server", f"--filename={manifests}"
        )
    finally:
        cluster.kubectl("delete", "namespace", NAME)

    assert len(applied.stdout.splitlines()) == len(ours)
    kinds = [item["kind"] for item in objects]
    assert {"Deployment", "PodDisruptionBudget", "Service", "PrometheusRule", "PodMonitor"} <= set(kinds)
    assert "CronJob" not in kinds
    assert ("Lease" in kinds) is (act == "true")
    (dashboard,) = [item for item in objects if item["metadata"]["name"] == f"{NAME}-dashboard"]
    assert json.loads(dashboard["data"]["rebalancer.json"])["panels"]


def test_the_values_of_that_test_cover_every_key_of_the_chart() -> None:
    shipped, set_there = (yaml.safe_load(path.read_text()) for path in (CHART / "values.yaml", RICH))
    empty = {key for key, value in shipped.items() if value in ("", [], {}, False)}

    # these two replace what the others configure
    assert empty - set(set_there) == {"existingConfigMap", "fullnameOverride", "namespaceOverride"}


def test_it_plans_then_acts_and_its_removal_leaves_nothing(
    cluster: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    cluster.kubectl("create", "namespace", NAME)
    rights_cluster.fill(cluster)
    before = everything(cluster)
    policy = rights_cluster.policy()
    policy["evictable"]["namespaces"] = {"exclude": [rights_cluster.QUIET], "include": []}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"policy": policy}))

    # plan only
    release(cluster, tmp_path, "install", f"--values={values}")
    planned = start_cron_job(cluster, tmp_path, expected=0)
    assert planned["moves"]
    assert cannot_evict(cluster)

    # act
    notes = release(cluster, tmp_path, "upgrade", f"--values={values}", "--set", "act=true")
    assert "rebalancer acts" in notes
    ran = start_cron_job(cluster, tmp_path, expected=0)
    landed = [item for item in ran["outcomes"] if item["result"] == "Landed"]
    assert landed
    remembered = state(cluster)
    assert remembered

    # an upgrade keeps what runs wrote
    release(cluster, tmp_path, "upgrade", f"--values={values}", "--set", "act=true,suspend=true")
    assert state(cluster) == remembered

    # so does one that makes it plan only, and one that lets it act again
    for acts in ("false", "true"):
        release(cluster, tmp_path, "upgrade", f"--values={values}", "--set", f"act={acts}")
        assert state(cluster) == remembered

    answer = helm("uninstall", NAME, f"--namespace={NAME}", folder=tmp_path, kubeconfig=cluster.kubeconfig())
    assert answer.returncode == 0, answer.stderr
    assert everything(cluster) == before
    record_property(
        SUMMARY,
        f"e2e chart: installed (plans {len(planned['moves'])} moves, may not evict), upgraded to act"
        f" ({len(landed)} landed), upgraded again (state kept), uninstalled: nothing left",
    )


def test_a_pause_from_before_it_acts_hinders_no_release_and_outlasts_it(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    namespace = "paused"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/rebalancer"
    cluster.kubectl("create", "namespace", namespace)
    pause = [*COMMAND, "pause", "a release", f"--lease={namespace}/rebalancer"]
    subprocess.run([*pause, f"--kubeconfig={cluster.kubeconfig()}"], check=True, timeout=300)
    words = (NAME, f"--namespace={namespace}", IMAGE, CHART)
    for verb, acts in (("install", "true"), ("upgrade", "false"), ("upgrade", "true")):
        answer = helm(verb, *words, f"--set=act={acts}", folder=tmp_path, kubeconfig=cluster.kubeconfig())
        assert answer.returncode == 0, answer.stderr
    removal = ("uninstall", NAME, f"--namespace={namespace}")
    assert helm(*removal, folder=tmp_path, kubeconfig=cluster.kubeconfig()).returncode == 0

    assert cluster.api.get(lease)["metadata"]["annotations"]["rebalancer/paused"] == "a release"


def release(cluster: ControlPlane, folder: Path, verb: str, *options: str) -> str:
    """Install or upgrade; the notes."""
    words = (verb, NAME, f"--namespace={NAME}", IMAGE, *options)
    answer = helm(*words, CHART, folder=folder, kubeconfig=cluster.kubeconfig())
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def start_cron_job(cluster: ControlPlane, folder: Path, *, expected: int) -> Object:
    """What the pod of the release's CronJob does, as its service account; what it prints."""
    cron_job = cluster.api.get(f"/apis/batch/v1/namespaces/{NAME}/cronjobs/{NAME}")
    pod = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].endswith(IMAGE_DIGEST)
    (mounted,) = [item["configMap"]["name"] for item in pod["volumes"] if item["name"] == "policy"]
    policy = folder / "policy.yaml"
    config_map = cluster.api.get(f"/api/v1/namespaces/{NAME}/configmaps/{mounted}")
    policy.write_text(config_map["data"]["policy.yaml"])
    arguments = [re.sub(r"^--policy=.*", f"--policy={policy}", item) for item in pod["containers"][0]["args"]]
    token = cluster.service_account_token(NAME, pod["serviceAccountName"])
    rights_cluster.measure(cluster.api)
    ended = subprocess.run(
        [*COMMAND, *confirmed(arguments), f"--kubeconfig={cluster.kubeconfig(token)}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "POD_NAMESPACE": NAME, "POD_NAME": f"{NAME}-1"},
    )
    assert ended.returncode == expected, ended.stderr
    printed: Object = json.loads(ended.stdout)
    return printed


def cannot_evict(cluster: ControlPlane) -> bool:
    """Whether the service account of a release that plans is refused an eviction."""
    account = f"system:serviceaccount:{NAME}:{NAME}"
    asked = cluster.kubectl("auth", "can-i", "create", "pods/eviction", f"--as={account}", check=False)
    return asked.stdout.strip() == "no"


def state(cluster: ControlPlane) -> str:
    """What the last run left for the next."""
    found = cluster.api.get(f"/api/v1/namespaces/{NAME}/configmaps/{NAME}-state")
    text: str = found["data"]["state.json"]
    return text


def everything(cluster: ControlPlane) -> set[str]:
    """All objects of the namespace, and all of the cluster that have no namespace."""
    found = set()
    for scope in ("true", "false"):
        kinds = cluster.kubectl("api-resources", "--verbs=list", f"--namespaced={scope}", "--output=name")
        # events tell what happened; the metrics of nodes are measured anew
        wanted = [
            kind for kind in kinds.stdout.split() if not kind.startswith("events") and "metrics" not in kind
        ]
        listed = cluster.kubectl("get", ",".join(wanted), f"--namespace={NAME}", "--output=name")
        found |= set(listed.stdout.split())
    return found
