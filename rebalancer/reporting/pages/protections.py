"""Generates docs/protections.md, the list of all reasons why a pod stays.

Renew the page with: python -m rebalancer.reporting.pages.protections > docs/protections.md
"""

from __future__ import annotations

import sys

from rebalancer.planning.reasons import groups
from rebalancer.policy import Protection

_HEAD = """\
# Why a pod stays

A plan lists every pod on a hot node that it does not move, with one of the codes below and a sentence
about that pod. `rebalancer plan --all` prints the whole list; `rebalancer explain pod/NAMESPACE/NAME`
explains one pod. The same codes appear as `kept[].reason` in JSON and as the label `reason` in metrics.

This page is generated from the program's own table.
"""


def protections_page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, reasons in groups().items():
        rows = "".join(f"| `{reason.value}` | {reason.meaning} |\n" for reason in reasons)
        parts.append(f"## {title}\n\n| code | meaning |\n|---|---|\n{rows}")
    kinds = "".join(f"| `{kind.value}` | {kind.meaning} |\n" for kind in Protection)
    parts.append(f"## Values of `evictable.protect`\n\n| value | protects |\n|---|---|\n{kinds}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(protections_page())
