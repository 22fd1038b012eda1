"""Renders pages from templates: each is one file that needs nothing else.

A page is light or dark as its reader is, and printable. Names come from the cluster and may be hostile: Jinja
escapes every one of them, and control characters are escaped before that as in tables; the page's own policy
forbids a browser to load or run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rebalancer.planning.plan import NodeReport
from rebalancer.reporting.html.chart import HEIGHT, WIDTH, Chart, chart
from rebalancer.reporting.words import amounts, counted, plain, words

CHARTED = ("cpu", "memory")  # resources that every page shows


def render_page(template: str, **values: Any) -> str:
    """The page that a template of this package makes of the values."""
    environment = Environment(
        loader=PackageLoader("rebalancer.reporting.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(plain=plain, words=_sentence, points=lambda figures: amounts(figures.items()))
    environment.globals.update(counted=counted, width=WIDTH, height=HEIGHT)
    return environment.get_template(template).render(values)


def _sentence(text: str) -> str:
    """Words on one line; a figure and its percent sign are not parted where a narrow cell wraps them."""
    return words(text).replace(" %", "\N{NO-BREAK SPACE}%")


def node_charts(nodes: Sequence[NodeReport]) -> list[Chart]:
    """A chart of every resource that is shown and whose load is known on some node."""
    return [found for name in CHARTED if (found := chart(nodes, name)) is not None]
