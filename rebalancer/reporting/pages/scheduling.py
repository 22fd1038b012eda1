"""The page on what of the scheduler is modelled, its tables made from the code.

Renew it with: python -m rebalancer.reporting.pages.scheduling > docs/scheduling-model.md
"""

from __future__ import annotations

import sys

from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling import CATALOGUE, MODELLED, RULES, VERIFIED

_DECIDING = (ExtensionPoint.FILTER, ExtensionPoint.SCORE)

_HEAD = """\
# What of the scheduler is modelled

`rebalancer` computes the placement the scheduler will make, with the scheduler's own configuration and
integer arithmetic. This page says how far that goes: what is modelled, how it was checked, what is
assumed, and where a live scheduler may do otherwise. Its tables are made from the code.

## How it was checked

The tests repeat 5,339 decisions that a real kube-scheduler VERIFIED made on 1,320 generated clusters, in 11
families: resources, taints, node affinity, ports, images, configurations, topology spread, inter-pod
affinity, volumes, Trimaran, and all mixed. Feasible nodes, the rejecting plugin and its words, every
plugin's score, every total and the choice agree exactly. Trimaran's arithmetic is also checked against
vectors of its Go code.

    pytest tests/conformance                                             # a line a family
    python -m tests.conformance.decide < CASES.jsonl > DECISIONS.jsonl   # cases of your own
"""

_ON_VERSIONS = """\
## Versions

Only the rules of VERIFIED are checked against decisions. Those of other versions are as read from the
reference; reports say which differ, and `run` refuses unless `scheduler.allowUnverifiedVersion` is set. The
version is the policy's `scheduler.version`, else that of the image of the scheduler's pod, else the API
server's.

"""

_TAIL = """\
## Where a pod lands

* **Ties.** Equal totals are a set, each node with the same chance. Which of them a scheduler takes
  depends on the order in which its workers happen to finish.
* **Sampling.** From 100 nodes on the scheduler looks at a part of the feasible nodes, from where its
  last search ended. That start is unknown, so every start counts alike. The chance of each node is then
  exact, normalisation over the sample included; the tests compare it with a search from every start in
  turn.
* **Preemption** is told, not chosen: on how many nodes pods of lower priority stand in the way, not
  which node and which of the pods the scheduler would pick.
* **Nominated pods** are Pending pods like others: they are placed first, by priority; the node that
  preemption chose for them is not held back. Reports warn of them.

## What is not modelled, and what happens then

| what | what happens |
|---|---|
| extenders | named in every report; pods of their scheduler are `Unpredictable` |
| permit plugins, gangs | their pods are `Unpredictable` |
| resource claims (DynamicResources) | their pods are `Unpredictable` |
| a kind of object or a figure that was not read | pods that need it are `Unpredictable`, with which |
| a plugin nobody describes | refused with where it is enabled; see [plugins](plugins/README.md) |
| `--assume-neutral` plugins | pass and score all nodes alike; every report says so |

`scheduler.allowUnpredictable` of the policy lets such pods be evicted all the same.

## Assumed, and known to deviate

* **ImageLocality** counts each node's own size of an image, as the decisions show; a live scheduler may
  use the size of the first node that registered the name, and a count of nodes that is stale for a
  while.
* **Recently bound pods** (TargetLoadPacking): pods bound less than 60 s before the window's end count
  as not yet measured. A scheduler that restarted counts every pod as recent for a while.
* **LowRiskOverCommitment** and its kind keep the last figures for ever when their source fails. What is
  read is the source as it is now; when it does not answer, their pods are `Unpredictable`.
* **NetworkTraffic** is modelled as its article meant it; the published code builds an invalid query and
  always fails. Its own query sums a counter; a rate is the better choice, through `scheduler.mirror`.
* **PodCapacityOfNode**: its source is not available; 100·(allocatable − pods) ÷ allocatable, before
  placement, fits its article's log.
* **Node order**: zones in the order of their first node by name. A node that changed zone is looked at
  last.
* **Alpha features** are off: scoring by storage capacity, taints compared by number,
  NodeDeclaredFeatures.
* **The namespace selectors** of affinity terms follow VERIFIED, which lets NotIn and DoesNotExist match every
  namespace.
"""


def _plugins() -> str:
    rows = ["| plugin | at | also reads | scores by | checked against |\n|---|---|---|---|---|\n"]
    for name, plugin in sorted(MODELLED.items()):
        points = ", ".join(point.value for point in _DECIDING if point in plugin.points)
        reads = ", ".join(sorted(item.value for item in plugin.inputs))
        resources = ", ".join(sorted(plugin.scored_resources))
        rows.append(f"| {name} | {points} | {reads} | {resources} | {plugin.evidence.value} |\n")
    return "".join(rows)


def _neutral() -> str:
    names = [
        name
        for name, description in sorted(CATALOGUE.items())
        if name not in MODELLED and description.points & {*_DECIDING}
    ]
    return ", ".join(names)


def _versions() -> str:
    rows = ["| rule | Kubernetes | what |\n|---|---|---|\n"]
    rows += [f"| {rule.name} | {rule.range} | {rule.what} |\n" for rule in RULES]
    return "".join(rows)


def scheduling_page() -> str:
    """The page as Markdown."""
    parts = (
        _HEAD,
        "## Plugins\n\nAll read nodes and pods. A score by a resource follows how much of it is used.\n\n"
        + _plugins(),
        f"Known, but taken to pass and score all nodes alike, which reports say: {_neutral()}.\n",
        _ON_VERSIONS + _versions(),
        _TAIL,
    )
    return "\n".join(parts).replace("VERIFIED", VERIFIED)


if __name__ == "__main__":
    sys.stdout.write(scheduling_page())
