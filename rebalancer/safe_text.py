"""JSON text that a terminal may show.

JSON leaves characters in strings that act on a terminal or hide text. Names and messages come from the
cluster, where anybody who can create a pod chooses them, so JSON that is written passes through here.
"""

from __future__ import annotations

import re

from rebalancer.redaction import without_secrets

# DEL, C1 controls, and characters that change the direction of text or are invisible.
TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def safe_json(text: str) -> str:
    """JSON text with those characters escaped, and without the secrets of its URLs; still the same JSON."""
    return TERMINAL_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", without_secrets(text))
