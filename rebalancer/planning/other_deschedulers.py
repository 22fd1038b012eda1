"""Other deschedulers in the cluster: a run refuses to act beside one, unless the policy allows it.

Two programs that evict pods undo each other's work. rebalancer counts on the room that it leaves on a node,
and another descheduler fills it or empties it by rules of its own. Limits and cooldowns of the one do not
count what the other evicts.

    pods with the image registry.k8s.io/descheduler/descheduler:v0.34.0     one runs
    pods with the image openshift4/ose-descheduler-rhel9, koord-descheduler one runs, built by somebody else
    a CronJob of that image                                                 one runs, also between its Jobs
    a CronJob that is suspended, a Deployment of 0 replicas                 none
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.kinds import CRON_JOBS
from rebalancer.cluster.records.pods import PodSpec, image_name
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import SafetyError
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.schema import Safety

# A name of its builder may stand before it; the system or the architecture that it is built for behind it.
_IMAGE = re.compile(r"(.+-)?descheduler(-(rhel\d+|amd64|arm64|arm|ppc64le|s390x))?")


def why_refused(snapshot: Snapshot, safety: Safety) -> str:
    """Why a run may not act beside other deschedulers; empty where none runs, or they are allowed."""
    if safety.other_deschedulers == "allow":
        return ""
    running = sorted({*_cron_jobs(snapshot), *_workloads_of_pods(snapshot)})
    if running:
        return (
            f"another descheduler runs ({', '.join(running)}): both move pods, so each undoes what the other "
            "counts on; stop it, or accept it by safety.otherDeschedulers: allow"
        )
    why_unread = snapshot.recording.unread.get(CRON_JOBS.plural)
    if why_unread:
        return (
            f"whether another descheduler runs is not known: CronJobs were not read ({why_unread}); grant "
            "the right to list them, or accept this by safety.otherDeschedulers: allow"
        )
    return ""


def ensure_allowed(snapshot: Snapshot, safety: Safety) -> None:
    """Raise SafetyError where a run may not act beside other deschedulers."""
    why = why_refused(snapshot, safety)
    if why:
        raise SafetyError(why, where=snapshot.source)


def _cron_jobs(snapshot: Snapshot) -> Iterator[str]:
    for cron_job in snapshot.recording.records(CRON_JOBS):
        template = cron_job.spec.job_template.spec.template
        if template is not None and not cron_job.spec.suspend and _is_descheduler(template.spec):
            yield f"{cron_job.metadata.namespace}/CronJob/{cron_job.metadata.name}"


def _workloads_of_pods(snapshot: Snapshot) -> Iterator[str]:
    """The workloads of pods that run or are about to; a pod without a workload by its own name."""
    pods = snapshot.pods
    classes = [index for index, pod in enumerate(pods.classes) if _is_descheduler(pod.spec)]
    workloads = Workloads(snapshot)
    for row in np.flatnonzero(np.isin(pods.pod_class, classes) & ~pods.terminating).tolist():
        pod = pods.class_of(PodRow(row))
        if pod.owner.kind:
            yield workloads.key_of(pod)
        else:
            yield pods.full_name(PodRow(row))


def _is_descheduler(spec: PodSpec) -> bool:
    return any(_IMAGE.fullmatch(image_name(container.image)) for container in spec.containers or ())
