"""Policies as text, and what reading them gives."""

from __future__ import annotations

import pytest

from rebalancer.errors import InputError
from rebalancer.policy.policy_file import parse_policy, to_yaml
from rebalancer.policy.schema import RebalancePolicy

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
DESIGN = """\
metadata: {name: k3s-trimaran}
scheduler:
  version: "1.35"
  configMap: {namespace: scheduler-plugins, name: scheduler-config, key: scheduler-config.yaml}
  profiles: [trimaran]
load:
  sources:
    - loadWatcher: {address: http://load-watcher.loadwatcher:2020}
    - metricsServer: {}
  maxAge: 3m
  minCoverage: 90%
hotNodes:
  forRuns: 2
  any:
    - {utilization: {cpu: 80, memory: 85}, coolTo: {cpu: 65, memory: 75}}
    - {deviation: {cpu: 20}, coolTo: {cpu: 10}, floor: {cpu: 50}}
    - {score: {plugins: [TargetLoadPacking], below: 20}}
evictable:
  minAge: 15m
  priorityBelow: 1000000000
  namespaces: {exclude: [kube-system]}
  protect: [LocalStorage, PersistentVolumes, SingleReplica]
  jobs: false
limits: {perRun: 5, perNode: 2, perNamespace: 3, perWorkload: 10%}
planning: {minGain: 5, confidence: 0.95, cooldown: 2h}
execution: {waveSize: 2, firstWave: 1, waveTimeout: 5m, onUnexpectedLanding: stop}
safety: {pause: false, maxNotReadyNodes: 5%, maxPendingPods: 10}
"""


def read(body: str) -> RebalancePolicy:
    return parse_policy(HEAD + body, "policy.yaml").policy


def refusal(body: str) -> str:
    with pytest.raises(InputError) as caught:
        read(body)
    return str(caught.value)


def read_back(policy: RebalancePolicy) -> RebalancePolicy:
    return parse_policy(to_yaml(policy), "printed").policy
