"""The eviction subresource: evicts a pod if its budget allows, else refuses as the real server does.

Source: pkg/registry/core/pod/storage/eviction.go of v1.35, in its order: the budget is spent first and the
preconditions are checked when the pod is deleted, so an eviction with a stale uid may cost a disruption.
"""

from __future__ import annotations

from rebalancer.cluster import times
from rebalancer_demo.admission import Registry
from rebalancer_demo.objects import (
    Object,
    StatusError,
    bad_request,
    is_finished,
    is_ready,
    is_terminating,
    label_selector,
    labels_of,
    not_found,
    phase_of,
    set_condition,
    spec_of,
    status_of,
    success,
    too_many_requests,
)

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_MAX_DISRUPTED_PODS = 2000


def evict(
    registry: Registry, namespace: str, name: str, eviction: Object, *, dry_run: bool = False
) -> Object:
    """Evict a pod if its budget allows; a Status of success, or the StatusError of the real server."""
    if (eviction.get("metadata") or {}).get("name", name) != name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = dict(eviction.get("deleteOptions") or {})
    if dry_run:
        options["dryRun"] = ["All"]
    with registry.store.lock:
        pod = registry.store.get("pods", namespace, name)
        if pod is None:
            raise not_found("pods", name)
        if not (is_finished(pod) or phase_of(pod) == "Pending" or is_terminating(pod)):
            _ask_budget(registry, pod, dry_run=bool(options.get("dryRun")))
        registry.check_preconditions("pods", pod, options)
        if not options.get("dryRun"):
            _mark(registry, namespace, name)
            # the mark is a new version, and a precondition on the version was just found to hold
            options["preconditions"] = {
                key: value
                for key, value in (options.get("preconditions") or {}).items()
                if key != "resourceVersion"
            }
        registry.delete("pods", namespace, name, options)
    return success(code=201)


def budgets_of(registry: Registry, pod: Object) -> list[Object]:
    """The disruption budgets that select a pod."""
    labels = labels_of(pod)
    return [
        budget
        for budget in registry.store.all("poddisruptionbudgets", pod["metadata"]["namespace"])
        if label_selector(spec_of(budget).get("selector"))(labels)
    ]


def _ask_budget(registry: Registry, pod: Object, *, dry_run: bool) -> None:
    budgets = budgets_of(registry, pod)
    if len(budgets) > 1:
        raise StatusError(500, "", _TWO_BUDGETS)
    if not budgets:
        return
    budget = budgets[0]
    status = status_of(budget)
    if not is_ready(pod):
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            return
        if status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return
    _spend(registry, budget, pod["metadata"]["name"], dry_run=dry_run)


def _spend(registry: Registry, budget: Object, pod_name: str, *, dry_run: bool) -> None:
    name = budget["metadata"]["name"]
    status = status_of(budget)
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(
            _REFUSED, [{"reason": "DisruptionBudget", "message": message}], retry_after=10
        )
    allowed = status.get("disruptionsAllowed", 0)
    about = {"name": name, "group": "policy", "kind": "poddisruptionbudgets"}
    if allowed < 0:
        message = f'poddisruptionbudget.policy "{name}" is forbidden: pdb disruptions allowed is negative'
        raise StatusError(403, "Forbidden", message, details=about)
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED_PODS:
        message = (
            f'poddisruptionbudget.policy "{name}" is forbidden: DisruptedPods map too big - '
            "too many evictions not confirmed by PDB controller"
        )
        raise StatusError(403, "Forbidden", message, details=about)
    if allowed == 0:
        message = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise too_many_requests(_REFUSED, [{"reason": "DisruptionBudget", "message": message}])
    if dry_run:
        return
    now = registry.store.clock()

    def decrement(changed: Object) -> None:
        changed["status"]["disruptionsAllowed"] = allowed - 1
        changed["status"].setdefault("disruptedPods", {})[pod_name] = times.render(now)
        if allowed == 1:
            set_condition(
                changed, "DisruptionAllowed", "False", now, reason="InsufficientPods", standard=True
            )

    registry.store.mutate("poddisruptionbudgets", budget["metadata"]["namespace"], name, decrement)


def _mark(registry: Registry, namespace: str, name: str) -> None:
    def mark(changed: Object) -> None:
        set_condition(
            changed,
            "DisruptionTarget",
            "True",
            registry.store.clock(),
            reason="EvictionByEvictionAPI",
            message="Eviction API: evicting",
        )

    registry.store.mutate("pods", namespace, name, mark)
