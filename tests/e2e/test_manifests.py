"""The manifests against a real API server: it takes every overlay, and the CronJob is what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import SUMMARY
from tests.e2e.api import ApiRefusedError, Object, collection_of, documents, path_of
from tests.e2e.clusters import namespace
from tests.e2e.controlplane import ControlPlane

MANIFESTS = Path(__file__).parents[2] / "k8s"
KUSTOMIZATIONS = {
    str(path.parent.relative_to(MANIFESTS.parent)): path.parent
    for folder in (MANIFESTS, MANIFESTS.parent / "extender" / "k8s")
    for path in sorted(folder.rglob("kustomization.yaml"))
    if "kind: Kustomization" in path.read_text()  # a component is rendered as part of one
}
ACTIVE = KUSTOMIZATIONS["k8s/overlays/active"]
NAMESPACE = "rebalancer"

RecordProperty = Callable[[str, object], None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that runs no pods, and our namespace: a dry run creates none."""
    with ControlPlane(tmp_path_factory.mktemp("controlplane")) as started:
        started.start(scheduler=False, kwok=False)
        started.api.create(namespace(NAMESPACE))
        started.api.create(namespace("scheduler-plugins"))  # of the scheduler with an extender
        yield started


@pytest.mark.parametrize("folder", KUSTOMIZATIONS.values(), ids=list(KUSTOMIZATIONS))
def test_the_api_server_accepts_every_object_and_every_field(
    cluster: ControlPlane, folder: Path, record_property: RecordProperty
) -> None:
    wanted = _rendered(cluster, folder)
    before = [_exists(cluster, manifest) for manifest in wanted]

    accepted = _apply(cluster, folder, "--dry-run=server")

    assert accepted == len(wanted)
    assert [_exists(cluster, manifest) for manifest in wanted] == before
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(_kinds(wanted).items()))
    name = folder.relative_to(MANIFESTS.parent)
    record_property(SUMMARY, f"e2e manifests: {name}: accepted by the API server's dry run: {kinds}")


def test_a_field_that_the_api_server_does_not_know_is_refused(cluster: ControlPlane, tmp_path: Path) -> None:
    """The dry run can fail: it is the API server's own check of every field."""
    text = cluster.kubectl("kustomize", str(ACTIVE)).stdout
    manifest = tmp_path / "manifests.yaml"
    manifest.write_text(text.replace("concurrencyPolicy:", "concurrentPolicy:"))

    answer = cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", f"--filename={manifest}", check=False
    )

    assert answer.returncode != 0
    assert ".spec.concurrentPolicy: field not declared in schema" in answer.stderr


def test_what_is_applied_is_there_and_starts_a_pod_that_the_namespace_admits(
    cluster: ControlPlane, record_property: RecordProperty
) -> None:
    base, active = _rendered(cluster, KUSTOMIZATIONS["k8s/base"]), _rendered(cluster, ACTIVE)

    _apply(cluster, KUSTOMIZATIONS["k8s/base"])
    planning = _arguments(_cron_job(cluster))
    _apply(cluster, ACTIVE)
    acting = _arguments(_cron_job(cluster))

    assert planning[:2] == ["--log-format=json", "plan"]
    assert acting[:2] == ["--log-format=json", "run"]
    for manifest in (*base, *active):
        assert _exists(cluster, manifest), path_of(manifest)
    pod = _dry_pod(cluster, _cron_job(cluster))
    assert pod["spec"]["serviceAccountName"] == NAMESPACE
    mounted = next(
        volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if volume["name"] == "policy"
    )
    policy = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{mounted}")
    assert policy["data"]["policy.yaml"] == (MANIFESTS / "base" / "policy.yaml").read_text()
    record_property(
        SUMMARY,
        f"e2e manifests: applied for real: base ({len(base)} objects), then active ({len(active)});"
        " the CronJob's pod is admitted by a namespace that enforces the restricted profile",
    )


def test_the_namespace_refuses_a_pod_with_more_than_the_cronjob_asks_for(cluster: ControlPlane) -> None:
    _apply(cluster, ACTIVE)
    cron_job = _cron_job(cluster)
    container = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    container["securityContext"]["allowPrivilegeEscalation"] = True

    with pytest.raises(ApiRefusedError, match="allowPrivilegeEscalation"):
        _dry_pod(cluster, cron_job)


def _rendered(cluster: ControlPlane, folder: Path) -> list[Object]:
    return documents(cluster.kubectl("kustomize", str(folder)).stdout)


def _apply(cluster: ControlPlane, folder: Path, *options: str) -> int:
    """Apply a kustomization; how many objects the API server took."""
    answer = cluster.kubectl("apply", "--server-side", *options, f"--kustomize={folder}", check=False)
    assert answer.returncode == 0, answer.stderr
    assert "Warning" not in answer.stderr, answer.stderr
    return len(answer.stdout.splitlines())


def _kinds(manifests: list[Object]) -> Counter[str]:
    return Counter(manifest["kind"] for manifest in manifests)


def _exists(cluster: ControlPlane, manifest: Object) -> bool:
    names = {item["metadata"]["name"] for item in cluster.api.list(collection_of(manifest))}
    return manifest["metadata"]["name"] in names


def _cron_job(cluster: ControlPlane) -> Object:
    return cluster.api.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/rebalancer")


def _arguments(cron_job: Object) -> list[str]:
    arguments: list[str] = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ]
    return arguments


def _dry_pod(cluster: ControlPlane, cron_job: Object) -> Object:
    """The pod of the CronJob as the API server would admit it. Raises ApiRefusedError if it would not."""
    template = cron_job["spec"]["jobTemplate"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rebalancer", "namespace": NAMESPACE, "labels": labels},
        "spec": template["spec"],
    }
    return cluster.api.request("POST", f"{collection_of(pod)}?dryRun=All", pod)
