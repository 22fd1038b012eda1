"""Generates docs/protections.md, the list of all reasons why a pod stays.

Renew the page with: python -m tools.pages.protections > docs/protections.md
"""

from __future__ import annotations

import sys

from rebalancer.planning.reasons import groups
from rebalancer.planning.remedies import WHAT_FREES

_HEAD = """\
# What protects pods

Every pod that stays has one of the codes below, with a sentence about that pod. `rebalancer plan --all` lists
them, and `rebalancer explain pod/NAMESPACE/NAME` names every rule that protects one pod. Each is followed by
what would free that pod: the key of the policy with its value, the field of the Kubernetes API, or time.

In JSON the code is `kept[].reason`; `verdict` of `explain` may also be `Moved`, `Removed`, `Evictable`,
`NodeNotHot` or `Pending`.
"""


def protections_page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, reasons in groups().items():
        rows = "".join(
            f"| `{reason.value}` | {reason.meaning} | {WHAT_FREES[reason].documented} |\n"
            for reason in reasons
        )
        parts.append(f"## {title}\n\n| code | meaning | what frees it |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(protections_page())
