"""The policy that a service acts by: a changed file is taken over between two runs, a bad one refused.

    policy.yaml changes, and can be used    in force from the next run on
    policy.yaml changes, and cannot         refused with its mistake; the one before stays in force
    SIGHUP                                  the file is read at once, and the outcome logged in any case

The safety settings are read again during a run, as ``rebalancer run`` does. Where the file cannot be used
meanwhile those of the policy in force count, with one exception: ``safety.pause: true`` in any text that can
be read as YAML pauses, because whoever wrote it wants that at once.
"""

from __future__ import annotations

import logging
from pathlib import Path

from rebalancer import files
from rebalancer.documents import parse, read_text, read_text_again
from rebalancer.errors import InputError
from rebalancer.policy.policy_file import LoadedPolicy, default_policy, parse_policy
from rebalancer.policy.schema import Safety

LOGGER = logging.getLogger(__name__)


class PolicyInForce:
    """The policy of the last file that could be used."""

    def __init__(self, path: Path | None) -> None:
        """Read it for the first time. Raises InputError: a service does not start with a bad policy."""
        self._path = path
        self._text = "" if path is None else read_text(path)
        self._asked = False
        if path is not None and not files.is_file(path):
            self._path = None  # what came through a pipe cannot be read again
        self.loaded: LoadedPolicy = default_policy() if path is None else parse_policy(self._text, str(path))
        self.refused = ""  # why the file as it is now is not in force

    def ask(self) -> None:
        """Have the file read at the next chance, and say what came of it; may be called by a signal."""
        self._asked = True

    def refresh(self) -> bool:
        """Take over the file if it has changed; returns whether another policy is in force now."""
        asked, self._asked = self._asked, False
        if self._path is None:
            return False
        try:
            text = read_text_again(self._path)
            if not asked and not self.refused and text == self._text:
                return False
            loaded = parse_policy(text, str(self._path))
        except InputError as error:
            if asked or str(error) != self.refused:
                LOGGER.error("the policy is refused, the one before stays in force: %s", error)
            self.refused = str(error)
            return False
        changed = text != self._text
        self.loaded, self._text, self.refused = loaded, text, ""
        LOGGER.info(
            "the policy %s is %s",
            loaded.policy.metadata.name,
            "in force from now on" if changed else "unchanged, and in force",
        )
        return changed

    def safety(self) -> Safety:
        """The safety settings as the file has them now; those in force where it cannot be used."""
        if self._path is None:
            return self.loaded.policy.safety
        text = ""
        try:
            text = read_text_again(self._path)
            if text == self._text:
                return self.loaded.policy.safety
            return parse_policy(text, str(self._path)).policy.safety
        except InputError:
            safety = self.loaded.policy.safety
            return safety.model_copy(update={"pause": True}) if _pauses(text, str(self._path)) else safety


def _pauses(text: str, source: str) -> bool:
    """Whether a text that is not a policy asks for a pause all the same."""
    try:
        value = parse(text, source).value
    except InputError:
        return False
    safety = value.get("safety") if isinstance(value, dict) else None
    return isinstance(safety, dict) and safety.get("pause") is True
