"""Generates docs/scheduling-model.md: which parts of the scheduler are modelled, and how each was checked.

Renew it, and tests/conformance/RULES.md, with: make pages
"""

from __future__ import annotations

from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import Evidence
from rebalancer.scheduling.registry import BY_RULES, CATALOGUE, MODELLED, PASSING
from rebalancer.scheduling.versions.release import REFERENCE
from rebalancer.scheduling.versions.rules import RULES
from rebalancer.scheduling.versions.verified import (
    VERIFIED,
    compared_prerelease,
    read_in_words,
    verified_in_words,
)

_DECIDING = (ExtensionPoint.FILTER, ExtensionPoint.SCORE)
_CHECKED_AGAINST = {
    Evidence.DECISIONS: "decisions of the real scheduler",
    Evidence.SOURCE: "the scheduler's source",
    Evidence.ARTICLE: "the log that an article prints",
}

_HEAD = """\
# How the scheduler is modelled

rebalancer predicts where kube-scheduler will place a pod. It reads the scheduler's own configuration,
and computes every filter and score with the same integer arithmetic. The model repeats 5,339 decisions
that a real kube-scheduler REFERENCE made on 1,320 generated clusters, with every score and every
reason: [how that was checked](conformance.md). [A landing worked out by hand](landing.md) is an
example.

## Plugins
"""

_ON_VERSIONS = """\
## Versions

Verified against the scheduler of each: VERIFIED. rebalancer takes the version from `scheduler.version`
in the policy, else from the image of the scheduler's own pods, else from the API server. It finds these
pods by `scheduler.pods`, by the ConfigMap or file that the policy names, or by the image
`kube-scheduler`. If the image of a second scheduler does not name the version, state it in the policy.

On a version that is not in this list, a plan names the rules that differ between versions. `run`
refuses if a pod that it would move depends on one of them, unless the policy sets
`scheduler.allowUnverifiedVersion`.PRERELEASES

Feature gates turn some rules off. rebalancer reads them from `scheduler.featureGates` in the policy,
else from the command line of the scheduler's pods. Where it finds neither, as on managed control
planes, or the scheduler emulates another version, pods that depend on a gate that is on by default are
`Unpredictable`. A gate on the command line that no rule of the model knows is a warning.
"""

_HEAD_OF_VERSIONS = """\
# Rules by version of the scheduler

What versions of the scheduler decide otherwise. `make pages` writes this table from
`rebalancer/scheduling/versions/rules.py`. The sources of NOT_COMPARED were read, and their decisions
were not compared.

"""

_TAIL = """\
## Where a pod lands

* **Ties.** Every node with the highest total is a possible landing. Up to 1.34 the scheduler draws one
  of them for each pod. From 1.35 on, the node that its search reaches first wins, and the search starts
  at a place that nobody outside knows. So pods that tie among the same nodes all go to the same node,
  until another is better.
* **Several moves.** rebalancer follows up to a hundred scenarios of such searches through the whole
  plan. A move has to land well in each of them.
* **Pending pods** are placed first, in the order of the scheduler's queue.
* **Several schedulers.** Each places its own pods, by the rules of its own version and with its own
  figures of load. A wave holds pods of one scheduler only.
* **Samples.** In clusters of more than 100 nodes the scheduler compares a sample of the nodes that fit.
  rebalancer gives each node its chance. On generated clusters these chances differ from those of
  searches carried out step by step by a total variation of 0.014 where many nodes are equal, 0.04 where
  totals differ, and 0.09 where the best nodes are neighbours. No search landed on a node without a
  chance.
* **Load-aware plugins** score by figures that may be a minute and a half old. A landing has to be
  acceptable by the figures of now and by older ones.
* **Free volumes of equal size.** Which of them a claim takes is not known. Where they are not alike, a
  pod whose claim could take one of them may land on any node that they allow.
* **Preemption** is reported, not predicted.

## Not modelled

rebalancer never evicts a pod whose landing it cannot predict: such a pod is `Unpredictable`, and its
reason says why.

| what | what happens |
|---|---|
| permit plugins, gang scheduling, resource claims (DynamicResources) | their pods are `Unpredictable` |
| extenders whose scores the policy [does not state](extender.md#extenders-of-others) | pods that they are \
asked about are `Unpredictable` |
| pods that ask for the zone or region label of other pods, from 1.35 on | they, and pods that they may \
select, are `Unpredictable` |
| a kind of object or a figure that rebalancer could not read | pods that need it are `Unpredictable` |
| a plugin that rebalancer does not know | it refuses the configuration, with the line; \
[three ways on](plugins/README.md) |
| NEUTRAL, of old configurations | plans assume that they reject no node, and say so |

## Where it may differ

* **NetworkTraffic** follows the article that introduced it. The published code sends an invalid query
  and always fails; query a rate instead, through [`scheduler.mirror`](plugins/README.md).
* **PodCapacityOfNode** has no published source. The formula 100 · (allocatable - pods) / allocatable
  reproduces the log in its article.
* **TargetLoadPacking** counts pods that were bound after its figures. After a start of the scheduler it
  counts every pod; until its next figures, 95 seconds later, its pods are `Unpredictable`.
* **Trimaran's plugins** keep their last figures when their source fails. If the source does not answer
  rebalancer either, their pods are `Unpredictable`.
* **Managed control planes** do not show when the scheduler started. In clusters of more than 100 nodes
  a plan then lists more possible nodes for a pod.
* **Alpha features** count as off unless the scheduler's command line or `scheduler.featureGates` turns
  them on.
"""


def _plugins() -> str:
    """The modelled plugins by what they were checked against, and those that score by load."""
    rows = ["| checked against | plugins |\n|---|---|\n"]
    for evidence, text in _CHECKED_AGAINST.items():
        names = [name for name, plugin in sorted(MODELLED.items()) if plugin.evidence is evidence]
        rows.append(f"| {text} | {', '.join(names)} |\n")
    scored = [
        f"{name} ({', '.join(sorted(plugin.scored_resources))})"
        for name, plugin in sorted(MODELLED.items())
        if plugin.scored_resources
    ]
    rows.append(f"\nThese score nodes by how much of a resource is used: {', '.join(scored)}.\n")
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
        f"\n{minor} was compared as of {compared_prerelease(minor)}: until its release is out, `run` refuses "
        "where a pod depends\non a rule that is new in it."
        for minor in VERIFIED
        if compared_prerelease(minor)
    )


def versions_page() -> str:
    """The page of the rules that differ between versions, as Markdown."""
    return _HEAD_OF_VERSIONS.replace("NOT_COMPARED", read_in_words()) + _versions()


def scheduling_page() -> str:
    """The page as Markdown."""
    page = "\n".join((_HEAD, _plugins(), _ON_VERSIONS, _TAIL))
    page = page.replace("VERIFIED", verified_in_words()).replace("REFERENCE", REFERENCE)
    return page.replace("NEUTRAL", _neutral()).replace("PRERELEASES", _prereleases())
