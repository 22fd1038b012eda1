"""Generates docs/protections.md, the list of all reasons why a pod stays.

Renew the page with: python -m tools.pages.protections > docs/protections.md
"""

from __future__ import annotations

import sys

from rebalancer.planning.reasons import Reason, groups
from rebalancer.policy.evictability import Protection

_HEAD = """\
# Why a pod stays

A plan lists every pod on a hot node that it does not move, with one of the codes below and a sentence
about that pod. `rebalancer plan --all` prints the whole list; `rebalancer explain pod/NAMESPACE/NAME`
explains one pod. The same codes appear as `kept[].reason` in JSON and as the label `reason` in metrics.

Where nodes stay above their `coolTo`, the plan also names the setting that holds most of the load that could
have left (`BLOCKED BY` in the table, `obstacles` in JSON): each pod that stays is weighed by what it uses of
the resources in which its node is above `coolTo`, and pods that never move are left out. A pod that several
rules keep counts for the first of them; `podsKeptAlone` counts the pods that no rule of another setting
keeps. Lifting a setting lets pods be considered; it does not promise that their replacements have a landing.

This page is generated from the program's own table.
"""


def protections_page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for title, reasons in groups().items():
        rows = "".join(
            f"| `{reason.value}` | {reason.meaning} | {_setting(reason)} |\n" for reason in reasons
        )
        parts.append(f"## {title}\n\n| code | meaning | setting |\n|---|---|---|\n{rows}")
    kinds = "".join(f"| `{kind.value}` | {kind.meaning} |\n" for kind in Protection)
    parts.append(f"## Values of `evictable.protect`\n\n| value | protects |\n|---|---|\n{kinds}")
    return "\n".join(parts)


def _setting(reason: Reason) -> str:
    return f"`{reason.setting}`" if reason.setting else ""


if __name__ == "__main__":
    sys.stdout.write(protections_page())
