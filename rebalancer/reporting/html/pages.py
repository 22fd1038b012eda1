"""Renders pages from templates, each one file that needs nothing else: a plan, nodes.

A page is light or dark as its reader is, and printable. Names come from the cluster and may be hostile: Jinja
escapes every one of them, and control characters are escaped before that as in tables; the page's own policy
forbids a browser to load or run anything.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace

from rebalancer.counting import counted
from rebalancer.execution.outcomes import Outcomes
from rebalancer.planning.eviction.rules import EVICT
from rebalancer.planning.explanation import SchedulingTable
from rebalancer.planning.plan import Move, NodeReport, Plan, encode
from rebalancer.reporting.html.chart import HEIGHT, WIDTH, Chart, chart
from rebalancer.reporting.html.embedded import embedded
from rebalancer.reporting.tables import nodes as of_nodes
from rebalancer.reporting.tables import outcomes as of_run
from rebalancer.reporting.tables import plan as of_plan
from rebalancer.reporting.tables.nodes import NodeListing
from rebalancer.reporting.tables.text import Lines, Style, common_beginning, common_ending
from rebalancer.reporting.words import amounts, figure, minutes, plain, words

CHARTED = ("cpu", "memory")  # resources that every page shows
_PACKAGE = "rebalancer.reporting.html"
_MAX_NODES = 200
_MAX_KEPT_OF_A_REASON = 50
_MAX_SCORED = 8
_WORD = re.compile(r"[\w.-]+")
_MAX_DESTINATIONS = 3  # that the line of a move names
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def render_page(template: str, package: str = _PACKAGE, nodes: Sequence[str] = (), **values: Any) -> str:
    """The page that a template of a package makes of the values; it may build on those of this one.

    ``nodes`` are the names whose common beginning and ending are left out of the page, which says so.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (package, _PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(plain=plain, minutes=minutes, moment=_moment)
    environment.filters.update(points=lambda figures: amounts(figures.items()))
    ending = common_ending(nodes)
    beginning = common_beginning([name.removesuffix(ending) for name in nodes])
    names = Lines(Style(), nodes)
    whole = {name.removesuffix(ending) for name in nodes}

    def short(text: str) -> str:
        """The text with names of nodes by what tells them apart."""
        shown = names.without_ending(text)
        if not beginning:
            return shown
        return _WORD.sub(
            lambda word: word[0].removeprefix(beginning) if word[0].rstrip(".") in whole else word[0], shown
        )

    environment.filters.update(
        node=lambda name: plain(short(name)), words=lambda text: _sentence(short(text))
    )
    environment.globals.update(counted=counted, figure=figure, width=WIDTH, height=HEIGHT)
    left_out = [f"{how} {end}" for how, end in (("begin with", beginning), ("end in", ending)) if end]
    environment.globals.update(left_out_of_names=" and ".join(left_out))
    environment.globals.update(of_nodes=of_nodes, of_plan=of_plan, of_run=of_run)
    return environment.get_template(template).render(values)


class Picture(str):
    """An SVG, which notebooks show."""

    def _repr_svg_(self) -> str:
        return self


def node_picture(nodes: Sequence[NodeReport], resource: str = "cpu") -> Picture | None:
    """The nodes by load, before and after a plan, as an SVG by itself; None where no load is known."""
    node_chart = chart(nodes, resource)
    if node_chart is None:
        return None
    return Picture(render_page("picture.svg.jinja", chart=node_chart))


def _sentence(text: str) -> str:
    """Words on one line; a figure and its percent sign are not parted where a narrow cell wraps them."""
    return words(text).replace(" %", "\N{NO-BREAK SPACE}%")


def node_charts(nodes: Sequence[NodeReport]) -> list[Chart]:
    """A chart of every resource that is shown and whose load is known on some node, all in one order."""
    measured = {name for node in nodes for name in node.load}
    resources = [name for name in CHARTED if name in measured]
    return [drawn for name in resources if (drawn := chart(nodes, name, resources[0])) is not None]


def nodes_page(
    listing: NodeListing, everything: NodeListing | None = None, chosen_by: str = "", top: int | None = None
) -> str:
    """The whole page: a summary of ``everything``, and a row for each of the first ``top`` nodes listed."""
    all_nodes = (everything or listing).nodes
    rows = listing.nodes[:top]
    return render_page(
        "nodes.html.jinja",
        nodes=[node.name for node in all_nodes],
        listing=listing,
        all_nodes=all_nodes,
        charted=CHARTED,
        charts=node_charts([replace(node, after=None) for node in listing.nodes]),  # as they are now
        chosen=f"{len(listing.nodes)} of {counted(len(all_nodes), 'node')}: {chosen_by}" if chosen_by else "",
        rows=rows,
        left_out=len(listing.nodes) - len(rows),
        resources=sorted({*CHARTED, *(name for node in rows for name in node.load)}),
    )


def html_report(
    plan: Plan, policy: str, tables: Mapping[str, SchedulingTable], outcomes: Outcomes | None = None
) -> str:
    """A plan, its policy without secrets, the scheduler's scores by pod uid, and what came of the plan."""
    kind = "Plan" if outcomes is None else "Dry run"
    verdict = f"{kind}: {of_plan.verdict(plan)}"
    if outcomes is not None and not outcomes.dry_run:
        verdict = of_run.summary_words(outcomes)
        if outcomes.outcomes:
            landed = sum(outcome.result.landed for outcome in outcomes.outcomes)
            verdict = f"{landed} of {counted(len(outcomes.outcomes), 'move')} landed; {verdict}"
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-of_plan.peak(node), node.name))
    rules = _shared_rules(hot)
    elements = [("plan", encode(plan)), ("policy", policy.encode())]
    if outcomes is not None:
        elements.append(("outcomes", msgspec.json.encode(outcomes, order="deterministic")))
    return render_page(
        "report.html.jinja",
        nodes=[node.name for node in plan.nodes],
        plan=plan,
        policy="\n".join(plain(line) for line in policy.splitlines()),
        verdict=verdict[:1].upper() + verdict[1:],
        outcomes=outcomes,
        max_nodes=_MAX_NODES,
        charts=node_charts(plan.nodes),
        hot=hot[:_MAX_NODES],
        more_hot=max(len(hot) - _MAX_NODES, 0),
        resources=CHARTED,
        moves=[(move, tables.get(move.pod.uid)) for move in plan.moves],
        max_scored=_MAX_SCORED,
        destination=_destination,
        refusals=[
            *(f"{sentence}; a run refuses to act" for sentence in plan.protects_nothing),
            *plan.refusals,
        ],
        evict_annotation=EVICT[0],
        states=of_plan.STATES,
        hot_rules=[f"{resource}: {rule}" for resource, rule in rules.items()],
        without_rules=partial(_without_rules, rules=rules),
        max_kept=_MAX_KEPT_OF_A_REASON,
        embedded=[(name, embedded(content)) for name, content in elements],
    )


def _destination(move: Move) -> str:
    """``node-4``, ``node-3 or node-4, 50 % each``; of many ``one of 425 nodes, likeliest node-7 (28 %)``."""
    best = move.likeliest
    if not best.node:
        return "nowhere"
    if len(move.landings) == 1:
        return best.node
    if len(move.landings) > _MAX_DESTINATIONS:
        return f"one of {len(move.landings)} nodes, likeliest {best.node} ({best.probability:.0%})"
    nodes = sorted(move.landings, key=lambda landing: -landing.probability)
    if len({f"{landing.probability:.0%}" for landing in nodes}) == 1:
        return f"{' or '.join(landing.node for landing in nodes)}, {best.probability:.0%} each"
    return " or ".join(f"{landing.node} ({landing.probability:.0%})" for landing in nodes)


def _moment(time: str) -> str:
    """``22 Nov 2026 05:45 UTC`` for a time by RFC 3339; what is none stays as it is."""
    try:
        at = datetime.fromisoformat(time).astimezone(UTC)
    except ValueError:
        return plain(time)
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year} {at:%H:%M} UTC"


def _rule(reason: str) -> tuple[str, str, str]:
    """Resource, figure and rule of ``cpu 89.2 %: hot above 80 %, cool at 65 %``; others have no rule."""
    figure, _, rule = reason.partition(": ")
    return (figure.partition(" ")[0], figure, rule) if rule.startswith("hot above ") else ("", reason, "")


def _shared_rules(nodes: Iterable[NodeReport]) -> dict[str, str]:
    """By resource the one rule by which several nodes are hot, so that it need not be said of each."""
    rules: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for resource, _, rule in map(_rule, node.because):
            rules[resource][rule] += 1
    return {
        resource: next(iter(counts))
        for resource, counts in sorted(rules.items())
        if resource and len(counts) == 1 and counts.total() > 1
    }


def _without_rules(because: Sequence[str], rules: Mapping[str, str]) -> list[str]:
    """Why a node is hot, without the rules that are said once for all."""
    reasons = [(reason, *_rule(reason)) for reason in because]
    return [
        figure if resource and rules.get(resource) == rule else reason
        for reason, resource, figure, rule in reasons
    ]
