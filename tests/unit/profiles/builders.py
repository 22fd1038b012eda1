from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.profiles import ExtensionPoint, Profile, SchedulerConfiguration
from rebalancer.scheduling.registry import load_configuration

SCORE = ExtensionPoint.SCORE
V1_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}

K3S_TRIMARAN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
- schedulerName: trimaran
  plugins:
    score:
      enabled:
      - name: TargetLoadPacking
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: NodeResourcesLeastAllocated
  pluginConfig:
  - name: TargetLoadPacking
    args:
      watcherAddress: http://load-watcher.loadwatcher.svc.cluster.local:2020
"""

POD_CAPACITY = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    score:
      enabled:
      - name: PodCapacityOfNode
"""

NETWORK_TRAFFIC = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /mnt/d/src/go_work/customScheduler/scheduler.conf
profiles:
- schedulerName: custom-scheduler
  plugins:
    score:
      enabled:
      - name: "NetworkTraffic"
      disabled:
      - name: "*"
  pluginConfig:
    - name: "NetworkTraffic"
      args:
        ip: "http://10.0.0.4:9090"
        deviceName: "eth0"
        timeRange: 60
"""


def text_of(*profiles: dict[str, Any], version: str = "v1", **more: Any) -> str:
    return json.dumps(
        {
            "apiVersion": f"kubescheduler.config.k8s.io/{version}",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
            **more,
        }
    )


def configured(*profiles: dict[str, Any], **options: Any) -> SchedulerConfiguration:
    return load_configuration(text_of(*profiles), "c.json", **options)


def with_plugins(version: str = "v1", **sets: Any) -> Profile:
    return load_configuration(text_of({"plugins": sets}, version=version), "c.json").profiles[0]


def with_args(name: str, args: Any, *, enable: bool = False) -> Any:
    plugins = {"score": {"enabled": [{"name": name}]}} if enable else {}
    profile = {"plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}
    return configured(profile).profiles[0].arguments[name]


def refusal(*profiles: dict[str, Any], **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_configuration(text_of(*profiles, **more), "c.json")
    return str(caught.value)


def plugins_refusal(version: str = "v1", **sets: Any) -> str:
    return refusal({"plugins": sets}, version=version)


def names(*listed: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in listed]
