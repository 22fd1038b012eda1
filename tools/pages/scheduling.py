"""Generates docs/scheduling-model.md: which parts of the scheduler are modelled, and how each was checked.

Renew the page with: python -m tools.pages.scheduling > docs/scheduling-model.md
"""

from __future__ import annotations

import sys

from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.registry import CATALOGUE, MODELLED
from rebalancer.scheduling.versions.release import REFERENCE
from rebalancer.scheduling.versions.rules import RULES
from rebalancer.scheduling.versions.verified import verified_in_words

_DECIDING = (ExtensionPoint.FILTER, ExtensionPoint.SCORE)

_HEAD = """\
# The scheduler model

`rebalancer` predicts where kube-scheduler will place a pod, using the scheduler's own configuration and the
same integer arithmetic. This page lists what is modelled, how it was checked, what is assumed, and where a
live scheduler may decide differently. Its tables are generated from the code.

## How it was checked

The conformance suite repeats 5,339 decisions that a real kube-scheduler REFERENCE made on
1,320 generated clusters, in 11 families: resources, taints, node affinity, ports, images, configurations,
topology spread, inter-pod affinity, volumes, Trimaran, and a mix of everything. The feasible nodes, the
plugin that rejects a node and its message, every plugin's score, every total, and the chosen node all agree
exactly. Trimaran's arithmetic is also compared with test vectors produced by its Go code.

    pytest tests/conformance                                             # prints one line per family
    python -m tests.conformance.decide < CASES.jsonl > DECISIONS.jsonl   # cases of your own
"""

_ON_VERSIONS = """\
## Versions

Verified: VERIFIED. The scheduler of each of these was built from its sources, and it and the model decided
random clusters alike (`make conformance`). The rules of other versions were read from the scheduler's source:
plans name the rules that differ, and `run` refuses to act if a pod that it would move depends on one of them,
unless the policy sets `scheduler.allowUnverifiedVersion`. The version is taken from `scheduler.version` in
the policy, or else from the image of the scheduler's pod, or else from the API server.

A feature gate may turn a rule off in a version that has it. `rebalancer` reads gates from
`scheduler.featureGates` in the policy, or else from the command line of the scheduler's pod. If neither
states a gate, as with managed control planes, gates that are off by default count as off; a gate that is on
by default makes the pods that its rule affects `Unpredictable`. A rule that is not modelled makes the pods
that it affects `Unpredictable`, too.

"""

_TAIL = """\
## Where a pod lands

* **Ties.** All nodes with the highest total are possible landings. Up to 1.34 the scheduler draws one, each
  with the same chance, anew for each pod. From 1.35 on it draws nothing: it makes a heap of the feasible
  nodes in the order in which it found them and takes the root. That order begins at its start index, which
  grows by the nodes that a search looked at. Where a search looks at all nodes, as below 100, the index
  stays, so pods that tie among the same nodes **all go to one of them** until another is better. The index
  is not known: every one is equally likely, and a node has the chance of the indices that lead to it. A
  tenth of searches is taken to be a race, in which any of the best nodes may win: of 1,768 sequences of
  seven pods or so, placed by schedulers of 1.35 to 1.37 on two cores, 158 had one.
* **Chances of several landings are joint.** A plan follows the start index, not each landing by itself: a
  scenario is a set of indices that lead to the same nodes, in which every landing must be acceptable. The
  search keeps eight scenarios at most, those that fill a node most among them. Once a plan is found its
  moves are made again in up to a hundred (fewer for many moves on many nodes): the chances printed are those
  of all of them, and a move that does not hold in one stays out. Where there are more still, a warning says
  so. While a plan is carried out each next move of a wave is judged by where the replacements before it
  really are. `after.atMost` of a node is how full replacements may make it, whichever of equal nodes is taken
  (where they are drawn, or not all scenarios are kept: if all that may go there do).
* **Pending pods** are placed first, in the order of the queue. One that may go to several nodes splits the
  scenarios as a replacement does.
* **Sampling.** In clusters of 100 nodes and more the scheduler stops after it has found a certain number of
  feasible nodes, and starts where its previous search ended. That start is unknown, so every start is taken
  to be equally likely. With one worker the chance of each node is exact, including the normalisation over the
  sampled nodes. Several workers (16 unless `parallelism` says otherwise) are in a race: the chances are a
  mixture over how many of them are ahead at once, at most as many as the scheduler has cores.
* **Preemption** is reported, not predicted: a plan says on how many nodes pods of lower priority are in the
  way, but not which node and which victims the scheduler would pick.
* **Nominated pods**: room is kept on the node that preemption nominated, against pods of the same priority or
  a lower one. A nominated pod that passes its node is placed there without scoring. Plans warn about them.
* **Figures of load-aware plugins** are up to half a minute older than ours, because Trimaran's collector
  keeps them so long, and a minute more where load-watcher is built into the plugin. A landing must be
  acceptable by all of: the figures of now, those that earlier waves read within that time, and the
  windows that may have ended meanwhile, on which TargetLoadPacking's sum of pods bound lately depends: of
  more than four the first, the last and two between. A first plan knows one document only.
* **Image sizes**: the scheduler counts one size of an image on all nodes, that of the node which registered
  it first. Where nodes report several sizes, the nodes that any of them leads to are possible landings.
* **Extenders of ours**: their scores are computed from their file and counted as the scheduler counts them,
  `score × weight × 10`. Of pods that any extender is asked about equal nodes are drawn, from 1.35 on too, and
  no order is reused for the next pod. An extender is asked about the
  sample, so nodes that it rejects are missing there; where it may reject all of it no landing is known.

## Not modelled

| what | what happens |
|---|---|
| extenders that `scheduler.extenders` neither computes nor has [asked](extender.md#extenders-of-others) | \
every report names them; pods that they are asked about are `Unpredictable` |
| permit plugins, gang scheduling | their pods are `Unpredictable` |
| resource claims (DynamicResources) | their pods are `Unpredictable` |
| selectors that ask pods for a zone or region, which 1.35 and later give a pod when it is bound | pods \
that carry or may match them are `Unpredictable`; elsewhere a replacement is placed without these labels |
| a kind or a figure that could not be read | pods that need it are `Unpredictable`; the reason names it |
| an unknown plugin | the configuration is refused, line and column named; see [plugins](plugins/README.md) |
| `--assume-neutral` plugins | they reject no node and score all nodes alike; every report names them |

The policy's `scheduler.allowUnpredictable` allows the eviction of `Unpredictable` pods.

## Assumptions and known deviations

* **Peaks**: the node where a pod adds most power scores 0, or 1 on processors that round e^x otherwise.
* **ImageLocality**: a live scheduler may use a count of nodes with an image that is out of date.
* **Recently bound pods** (TargetLoadPacking): a pod bound less than 60 s before the end of the metrics
  window counts as not yet measured. A scheduler that has just started, or has become the leader, treats every
  running pod as recent: until its figures' window ends 95 s later, a minute and what its figures may lag, its
  pods are `Unpredictable`, and the reason says until when. The start is taken from its Lease
  (`scheduler.lease`, else leader election), else from when its pod became ready; where neither can be read
  it is not known, and the pods are held back as well. A recorded cluster is taken to have a scheduler that
  has run for long.
* **Samples**: on 100 nodes and more the scheduler looks for enough feasible nodes with several workers
  (`parallelism`), and who of them is ahead is chance. The chances of landings are a mixture over how many
  really run at once: each doubling up to the cores of the scheduler (`scheduler.cores`, else those of its
  pod's node; up to `parallelism` where neither is known) is equally likely. The node at which a search starts
  is not known; each is equally likely. Landings with a chance below one in ten million are left out.
* **LowRiskOverCommitment** and the other Trimaran plugins keep using their last figures when their source
  fails. `rebalancer` reads the source as it is now; when it does not answer, their pods are `Unpredictable`.
* **NetworkTraffic** is modelled as the article that introduced it describes it. The published code builds an
  invalid query and always fails. Its query sums a counter; use a rate instead, through `scheduler.mirror`.
* **PodCapacityOfNode** is not available as source code. The formula 100·(allocatable − pods) ÷ allocatable,
  before placement, reproduces the log in its article.
* **Node order**: zones are visited in the order of their first node by name. A node that changed its zone is
  visited last.
* **Alpha features** are off unless the scheduler's command line or `scheduler.featureGates` turns them on;
  numeric comparison of taints is not modelled.
* **Namespace selectors** of affinity terms: from 1.34 on, NotIn and DoesNotExist match every namespace.
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
    rows = ["| rule | Kubernetes versions | feature gate | effect |\n|---|---|---|---|\n"]
    rows += [
        f"| {rule.name} | {rule.range} | {rule.gate.name if rule.gate else ''} | {rule.what} |\n"
        for rule in RULES
    ]
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
    return "\n".join(parts).replace("VERIFIED", verified_in_words()).replace("REFERENCE", REFERENCE)


if __name__ == "__main__":
    sys.stdout.write(scheduling_page())
