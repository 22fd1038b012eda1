"""KubeSchedulerConfigurations: text to profiles."""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.documents import read_text, redacted_text
from rebalancer.scheduling.registry import load_configuration
from tests.fuzz.clusters import folder
from tests.fuzz.structure import yaml_structure
from tests.fuzz.target import Target

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TRIMARAN = """profiles:
- schedulerName: trimaran
  percentageOfNodesToScore: 50
  plugins:
    multiPoint: {enabled: [{name: TargetLoadPacking, weight: 5}], disabled: [{name: ImageLocality}]}
    score: {enabled: [{name: NodeResourcesFit, weight: 3}], disabled: [{name: "*"}]}
    preScore: {disabled: [{name: "*"}]}
  pluginConfig:
  - name: TargetLoadPacking
    args: {targetUtilization: 40, watcherAddress: "http://127.0.0.1:2020", defaultRequests: {cpu: 1000m}}
  - name: LoadVariationRiskBalancing
    args: {metricProvider: {type: Prometheus, address: "http://p:9090", token: secret}, safeVarianceMargin: 1}
extenders: [{urlPrefix: "http://e/", filterVerb: filter, weight: 2, managedResources: [{name: a/b}]}]
"""
ARGUMENTS = """profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 3}],
      requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone,
      whenUnsatisfiable: ScheduleAnyway}]}
  - name: NodeAffinity
    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
      {matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 10}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 1}]}
"""


def decode(content: bytes) -> None:
    """Read a file, and write it without its secrets."""
    path = folder() / "scheduler-config.yaml"
    path.write_bytes(content)
    text = read_text(path)
    load_configuration(text, str(path))
    redacted_text(text, str(path))


def seeds() -> Mapping[str, bytes]:
    """A default, one with plugins of its own, one with arguments."""
    return {
        "default.yaml": HEAD.encode(),
        "trimaran.yaml": (HEAD + TRIMARAN).encode(),
        "arguments.yaml": (HEAD + ARGUMENTS).encode(),
    }


TARGETS = (Target("configuration", decode, seeds, yaml_structure),)
