"""Generates docs/scheduling-model.md: which parts of the scheduler are modelled, and how each was checked.

Renew it, and docs/scheduler-versions.md, with: make pages
"""

from __future__ import annotations

from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.registry import BY_RULES, CATALOGUE, GANGS, MODELLED, PASSING
from rebalancer.scheduling.versions.release import REFERENCE
from rebalancer.scheduling.versions.rules import RULES
from rebalancer.scheduling.versions.verified import (
    VERIFIED,
    compared_prerelease,
    read_in_words,
    verified_in_words,
)

_DECIDING = (ExtensionPoint.FILTER, ExtensionPoint.SCORE)

_HEAD = """\
# The scheduler model

rebalancer predicts where kube-scheduler will place a pod, with the scheduler's own configuration and the
same integer arithmetic. The model repeats 5,339 decisions that a real kube-scheduler REFERENCE made on
1,320 generated clusters, with every score and every reason ([conformance](conformance.md)).
`rebalancer agreement` compares it with [your own scheduler](agreement.md).
"""

_ON_VERSIONS = """\
## Versions

Verified against the scheduler of each: VERIFIED. The version is that of `scheduler.version` in the policy,
else of the image of the scheduler's own pods, else of the API server. The pods of a scheduler are those that
`scheduler.pods` selects, else those that mount the ConfigMap that the policy names, or are started with its
key or the policy's file as `--config`, else static pods for `default-scheduler` and other pods of the image
`kube-scheduler` for any other name. If they have two versions, the lower one counts, and a warning says so. A
second scheduler whose image names no version has an unknown one: state it. The sources of NOT_COMPARED were
read, and their decisions were not compared. For versions that are not verified plans name the rules that
differ, and `run` refuses to act if a pod that it would move depends on one of them, unless the policy sets
`scheduler.allowUnverifiedVersion`.PRERELEASES

A feature gate may turn a rule off. Gates are read from `scheduler.featureGates` in the policy, else from
the command line of the scheduler's own pods. If neither states a gate, as with managed control planes, its
default counts; where that is on, the pods that its rule affects are `Unpredictable`, and so they are where
[a rule](scheduler-versions.md) is not modelled.
"""

_HEAD_OF_VERSIONS = """\
# Rules by version of the scheduler

What versions of the scheduler decide otherwise, as [the model](scheduling-model.md#versions) follows it.

"""

_TAIL = """\
## Where a pod lands

* **Ties.** All nodes with the highest total are possible landings. Up to 1.34 the scheduler draws one of
  them for each pod. From 1.35 on the order in which it found them decides, from a start index that nobody
  outside knows: every index is equally likely, and pods that tie among the same nodes **all go to one of
  them** until another is better. A tenth of searches is assumed to be a race, which any of the
  best nodes may win.
* **Several landings** are followed together, in up to a hundred scenarios of such indices. A move that does
  not hold in one of them stays out; if there are more scenarios, a warning says so.
* **Pending pods** are placed first, in the order of the queue.
* **Several schedulers** side by side see the cluster each by the rules of its own version, with its own
  figures. Which of two queues comes first is not known: Pending pods are placed in either order, and a wave
  holds pods of one scheduler only.
* **Sampling.** In clusters of more than 100 nodes the scheduler compares a sample of the feasible nodes.
  Its search begins where the last one ended, and several workers do it. rebalancer blends two plain
  searches: 85 % for one worker, whose sample is consecutive nodes from a start that may be any, and 15 %
  for samples of any nodes. Scores are normalised over all feasible nodes, and not over those of a sample.
  On generated clusters of 150 to 1,000 nodes these chances differ from those of searches carried out node
  by node, by 1 to 16 workers, by a total variation of 0.04 on average where totals differ, of 0.014 where
  many are equal, and of 0.09 (0.10 at most) where the best nodes are neighbours. No search landed outside
  the nodes with a chance.
* **Preemption** is reported, not predicted. Room is kept on the node that a preemption has nominated.
* **Figures of load-aware plugins** lag behind ours by up to a minute and a half. A landing must be
  acceptable by the figures of now and by those that earlier waves read within that time.
* **Image sizes**: where nodes report several sizes of an image, the nodes that any of them leads to are
  possible.
* **Extenders of ours**: their scores are counted as the scheduler counts them, `score × weight × 10`. Equal
  nodes are drawn, from 1.35 on too. Nodes that an extender rejects are missing in a sample; where it may
  reject all of it, no landing is known.

## Not modelled

| what | what happens |
|---|---|
| extenders that `scheduler.extenders` does not [compute](extender.md#extenders-of-others) | \
every report names them; pods that they are asked about are `Unpredictable` |
| permit plugins, gang scheduling, resource claims (DynamicResources) | their pods are `Unpredictable` |
| selectors that ask pods for a zone or region, which 1.35 and later give a pod when it is bound | pods \
that carry or may match them are `Unpredictable`; elsewhere a replacement is placed without these labels |
| a kind or a figure that could not be read | pods that need it are `Unpredictable`; the reason names it |
| an unknown plugin | the configuration is refused, line and column named; see [plugins](plugins/README.md) |
| `--assume-neutral` plugins | they reject no node and score all nodes alike; every report names them |

## Assumptions and known deviations

* **Peaks**: the node where a pod adds most power scores 0, or 1 on processors that round e^x otherwise.
* **ImageLocality**: a live scheduler may use a count of nodes with an image that is out of date.
* **Recently bound pods** (TargetLoadPacking): after a start or a change of leader the scheduler counts
  every running pod as not yet measured. Until its figures' window ends, 95 s later, its pods are
  `Unpredictable`; the reason says until when. If the start can be read neither from its Lease nor from its
  pod, they stay so.
* **LowRiskOverCommitment** and the other Trimaran plugins keep using their last figures when their source
  fails. rebalancer reads the source as it is now; when it does not answer, their pods are `Unpredictable`.
* **NodeMetadata** compares ages in whole seconds, at the moment at which it looks at each node. Times are
  compared here: a score may differ by a point where a second ends meanwhile, or where a time is yet to come.
* **NetworkTraffic** is modelled as the article that introduced it describes it. The published code builds an
  invalid query and always fails; use a rate instead, through `scheduler.mirror`.
* **PodCapacityOfNode** has no published source. The formula 100·(allocatable − pods) ÷ allocatable, before
  placement, reproduces the log in its article.
* **Node order**: the scheduler lists the nodes when it starts, and learns of later ones as they are
  created; zones are visited in the order of their first node. Up to 1.34 the list is by name. From 1.35 on
  (`WatchListClient`) it is in no order: any of the listed nodes may be at any of their places, so of a
  sample rebalancer knows how many of them it holds, and which of the later ones. Which of equal nodes is
  taken where all nodes are compared follows from one order drawn at random, and the same turned round. When
  the scheduler started is seen by its pods, which are ready since then. Where none is seen, as on managed
  control planes, it may have started before any of the nodes or after all: half of the chance goes to the
  landings of each. A node that changed its zone is visited last.
* **Alpha features** are off unless the scheduler's command line or `scheduler.featureGates` turns them on;
  numeric comparison of taints is not modelled.
* **Namespace selectors** of affinity terms: from 1.34 on, NotIn and DoesNotExist match every namespace.
"""


def _plugins() -> str:
    rows = ["| plugin | at | scores by | checked against |\n|---|---|---|---|\n"]
    for name, plugin in sorted(MODELLED.items()):
        points = ", ".join(point.value for point in _DECIDING if point in plugin.points)
        resources = ", ".join(sorted(plugin.scored_resources))
        rows.append(f"| {name} | {points} | {resources} | {plugin.evidence.value} |\n")
    return "".join(rows)


def _neutral() -> str:
    names = [
        name
        for name, description in sorted(CATALOGUE.items())
        if name not in BY_RULES | PASSING and name not in MODELLED and description.points & {*_DECIDING}
    ]
    return ", ".join(names)


def _versions() -> str:
    rows = ["| rule | Kubernetes versions | feature gate | effect |\n|---|---|---|---|\n"]
    rows += [
        f"| {rule.name} | {rule.range} | {rule.gate.name if rule.gate else ''} | {rule.what} |\n"
        for rule in RULES
    ]
    return "".join(rows)


def _prereleases() -> str:
    """A sentence on each minor of which a prerelease was compared."""
    return "".join(
        f"\n{minor} was compared as of {compared_prerelease(minor)}: until its release is, `run` refuses "
        "likewise where a pod\ndepends on a rule that is new in it."
        for minor in VERIFIED
        if compared_prerelease(minor)
    )


def versions_page() -> str:
    """The page of the rules that differ between versions, as Markdown."""
    return _HEAD_OF_VERSIONS + _versions()


def scheduling_page() -> str:
    """The page as Markdown."""
    parts = (
        _HEAD,
        "## Plugins\n\nA score by a resource follows how much of it is used. Models were checked against\n"
        "decisions of the scheduler, its source, or the log that an article prints.\n\n" + _plugins(),
        f"Not modelled: {_neutral()}, of old configurations. Plans assume they reject no node and score all\n"
        "alike, and say so. Nothing that [a rule](scheduler-versions.md) makes `Unpredictable` is one. Of "
        + " and ".join(sorted(GANGS))
        + "\nonly pods of a pod group take notice, and those are `Unpredictable`.\n",
        _ON_VERSIONS,
        _TAIL,
    )
    page = "\n".join(parts).replace("VERIFIED", verified_in_words()).replace("REFERENCE", REFERENCE)
    page = page.replace("NOT_COMPARED", read_in_words())
    return page.replace("PRERELEASES", _prereleases())
