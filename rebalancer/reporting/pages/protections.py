"""Generates docs/protections.md, the list of all reasons why a pod stays.

Renew the page with: python -m rebalancer.reporting.pages.protections > docs/protections.md
"""

from __future__ import annotations

import sys

from rebalancer.planning.reasons import groups
from rebalancer.policy import Protection

_HEAD = """\
# Why a pod stays

Every pod on a hot node that a plan does not move is listed with a code and a sentence of its own:
`rebalancer plan --all`, or for one pod `rebalancer explain pod/NAMESPACE/NAME`. These are the codes.
This page is made from the program's own table.
"""


def protections_page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, reasons in groups().items():
        rows = "".join(f"| `{reason.value}` | {reason.meaning} |\n" for reason in reasons)
        parts.append(f"## {title}\n\n| code | meaning |\n|---|---|\n{rows}")
    kinds = "".join(f"| `{kind.value}` | {kind.meaning} |\n" for kind in Protection)
    parts.append(f"## What `evictable.protect` may name\n\n| kind | meaning |\n|---|---|\n{kinds}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(protections_page())
