"""Controllers of pods, disruption budgets, and what else limits or changes how many pods there are."""

from typing import Any

from rebalancer.cluster.records import base
from rebalancer.cluster.records.pods import PodSpec


class DisruptionBudgetSpec(base.Record, frozen=True):
    """spec of a PodDisruptionBudget."""

    min_available: base.Int32 | str | None = None
    max_unavailable: base.Int32 | str | None = None
    selector: base.LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class DisruptionBudgetStatus(base.Record, frozen=True):
    """status of a PodDisruptionBudget, as the disruption controller wrote it."""

    disruptions_allowed: base.Int32 = 0
    current_healthy: base.Int32 = 0
    desired_healthy: base.Int32 = 0
    expected_pods: base.Int32 = 0
    observed_generation: base.Int64 = 0
    disrupted_pods: dict[str, str] | None = None


class DisruptionBudget(base.ApiObject, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus | None = None

    @property
    def selector(self) -> base.LabelSelector | None:
        """Which pods it protects: none without a selector, all of the namespace by an empty one."""
        return self.spec.selector


class BetaDisruptionBudget(DisruptionBudget, frozen=True):
    """policy/v1beta1 PodDisruptionBudget."""

    @property
    def selector(self) -> base.LabelSelector | None:
        """Which pods it protects: in this version an empty selector selects none either."""
        selector = self.spec.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return None
        return selector


class PodTemplate(base.ApiObject, frozen=True):
    """spec.template of a workload."""

    spec: PodSpec = PodSpec()


class OnExitCodes(base.Record, frozen=True):
    """onExitCodes of a pod failure policy's rule."""

    container_name: str | None = None
    operator: str = ""
    values: list[base.Int32] | None = None


class OnPodCondition(base.Record, frozen=True):
    """onPodConditions[] of a pod failure policy's rule."""

    type: str = ""
    status: str = "True"


class PodFailureRule(base.Record, frozen=True):
    """spec.podFailurePolicy.rules[] of a Job."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] | None = None


class PodFailurePolicy(base.Record, frozen=True):
    """spec.podFailurePolicy of a Job."""

    rules: list[PodFailureRule] | None = None


class RollingUpdate(base.Record, frozen=True):
    """spec.updateStrategy.rollingUpdate of a StatefulSet."""

    partition: base.Int32 | None = None


class UpdateStrategy(base.Record, frozen=True):
    """spec.updateStrategy of a StatefulSet."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentRollingUpdate(base.Record, frozen=True):
    """spec.strategy.rollingUpdate of a Deployment: a number, or a percentage of the replicas."""

    max_surge: base.Int32 | str | None = None
    max_unavailable: base.Int32 | str | None = None


class DeploymentStrategy(base.Record, frozen=True):
    """spec.strategy of a Deployment."""

    type: str = ""
    rolling_update: DeploymentRollingUpdate | None = None


class Ordinals(base.Record, frozen=True):
    """spec.ordinals of a StatefulSet."""

    start: base.Int32 = 0


class WorkloadSpec(base.Record, frozen=True):
    """spec of a ReplicaSet, StatefulSet, Deployment, ReplicationController, DaemonSet or Job."""

    replicas: base.Int32 | None = None
    parallelism: base.Int32 | None = None
    completions: base.Int32 | None = None
    backoff_limit: base.Int32 | None = None
    backoff_limit_per_index: base.Int32 | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    pod_replacement_policy: str | None = None
    active_deadline_seconds: base.Int64 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    update_strategy: UpdateStrategy | None = None
    ordinals: Ordinals | None = None
    strategy: DeploymentStrategy | None = None
    paused: bool = False
    min_ready_seconds: base.Int32 = 0
    # A ReplicationController's selector is a plain map, every other workload's a LabelSelector.
    selector: Any = None
    template: PodTemplate | None = None


class UncountedPods(base.Record, frozen=True):
    """status.uncountedTerminatedPods of a Job: uids of pods that its other figures do not count yet."""

    succeeded: list[str] | None = None
    failed: list[str] | None = None


class WorkloadCondition(base.Record, frozen=True):
    """status.conditions[] of a workload."""

    type: str = ""
    status: str = ""


class WorkloadStatus(base.Record, frozen=True):
    """status of a workload."""

    replicas: base.Int32 = 0
    ready_replicas: base.Int32 = 0
    available_replicas: base.Int32 = 0
    updated_replicas: base.Int32 = 0
    observed_generation: base.Int64 = 0
    active: base.Int32 = 0
    succeeded: base.Int32 = 0
    failed: base.Int32 = 0
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: list[WorkloadCondition] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    current_revision: str = ""
    update_revision: str = ""


class Workload(base.ApiObject, frozen=True):
    """Any controller of pods."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class JobTemplate(base.Record, frozen=True):
    """spec.jobTemplate of a CronJob."""

    spec: WorkloadSpec = WorkloadSpec()


class CronJobSpec(base.Record, frozen=True):
    """spec of a CronJob."""

    suspend: bool | None = None
    job_template: JobTemplate = JobTemplate()


class CronJob(base.ApiObject, frozen=True):
    """batch/v1 CronJob."""

    spec: CronJobSpec = CronJobSpec()


class NamespaceStatus(base.Record, frozen=True):
    """status of a Namespace."""

    phase: str = ""


class Namespace(base.ApiObject, frozen=True):
    """v1 Namespace."""

    status: NamespaceStatus = NamespaceStatus()


class ServicePort(base.Record, frozen=True):
    """A port of a Service."""

    name: str = ""
    port: int = 0


class ServiceSpec(base.Record, frozen=True):
    """spec of a Service."""

    selector: base.Labels | None = None
    ports: list[ServicePort] | None = None


class Service(base.ApiObject, frozen=True):
    """v1 Service."""

    spec: ServiceSpec = ServiceSpec()


class PriorityClass(base.ApiObject, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: base.Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


class TargetReference(base.Record, frozen=True):
    """scaleTargetRef or targetRef of an autoscaler."""

    kind: str = ""
    name: str = ""


class HorizontalAutoscalerSpec(base.Record, frozen=True):
    """spec of a HorizontalPodAutoscaler."""

    scale_target_ref: TargetReference = TargetReference()


class HorizontalAutoscalerStatus(base.Record, frozen=True):
    """status of a HorizontalPodAutoscaler."""

    current_replicas: base.Int32 = 0
    desired_replicas: base.Int32 = 0
    last_scale_time: str | None = None


class HorizontalAutoscaler(base.ApiObject, frozen=True):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    spec: HorizontalAutoscalerSpec = HorizontalAutoscalerSpec()
    status: HorizontalAutoscalerStatus = HorizontalAutoscalerStatus()


class UpdatePolicy(base.Record, frozen=True):
    """spec.updatePolicy of a VerticalPodAutoscaler."""

    update_mode: str | None = None


class VerticalAutoscalerSpec(base.Record, frozen=True):
    """spec of a VerticalPodAutoscaler."""

    target_ref: TargetReference = TargetReference()
    update_policy: UpdatePolicy | None = None


class VerticalAutoscaler(base.ApiObject, frozen=True):
    """autoscaling.k8s.io/v1 VerticalPodAutoscaler."""

    spec: VerticalAutoscalerSpec = VerticalAutoscalerSpec()


class ScopeRequirement(base.Record, frozen=True):
    """spec.scopeSelector.matchExpressions[] of a ResourceQuota."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(base.Record, frozen=True):
    """spec.scopeSelector of a ResourceQuota: all of its expressions."""

    match_expressions: list[ScopeRequirement] | None = None


class ResourceQuotaSpec(base.Record, frozen=True):
    """spec of a ResourceQuota."""

    hard: base.Labels | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(base.Record, frozen=True):
    """status of a ResourceQuota."""

    hard: base.Labels | None = None
    used: base.Labels | None = None


class ResourceQuota(base.ApiObject, frozen=True):
    """v1 ResourceQuota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(base.Record, frozen=True):
    """spec.limits[] of a LimitRange."""

    type: str = ""
    default: base.Labels | None = None
    default_request: base.Labels | None = None
    min: base.Labels | None = None
    max: base.Labels | None = None
    max_limit_request_ratio: base.Labels | None = None


class LimitRangeSpec(base.Record, frozen=True):
    """spec of a LimitRange."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(base.ApiObject, frozen=True):
    """v1 LimitRange."""

    spec: LimitRangeSpec = LimitRangeSpec()


class TargetPod(base.Record, frozen=True):
    """spec.target.pod of an EvictionRequest or Eviction."""

    name: str = ""
    uid: str = ""


class EvictionTarget(base.Record, frozen=True):
    """spec.target of an EvictionRequest or Eviction."""

    pod: TargetPod | None = None


class EvictionRequestSpec(base.Record, frozen=True):
    """spec of an EvictionRequest; an Eviction has the target alone."""

    target: EvictionTarget = EvictionTarget()
    requester: str = ""
    intent: str = ""


class EvictionRequestStatus(base.Record, frozen=True):
    """status of an EvictionRequest or Eviction."""

    conditions: list[base.Condition] | None = None


class EvictionRequest(base.ApiObject, frozen=True):
    """lifecycle.k8s.io/v1alpha1 EvictionRequest or Eviction."""

    spec: EvictionRequestSpec = EvictionRequestSpec()
    status: EvictionRequestStatus = EvictionRequestStatus()
