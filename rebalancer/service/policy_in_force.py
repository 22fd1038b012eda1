"""The policy that a service acts by: a changed file is taken over between two runs, a bad one refused.

    policy.yaml changes, and can be used    a run at work ends before its next wave; the next plans by it
    policy.yaml changes, and cannot         refused with its mistake; nothing is evicted until it can be
                                            used, and plans are made by the one before
    SIGHUP                                  the file is read at once, and the outcome logged in any case

A run reads the file again before each eviction, as ``rebalancer run`` does: whoever edits it may want to
pause runs, in words that are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from rebalancer import files
from rebalancer.documents import read_text, read_text_again
from rebalancer.errors import InputError
from rebalancer.policy.policy_file import LoadedPolicy, default_policy, parse_policy_file

LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


class FileInForce(Generic[T]):
    """What the last text of a file that could be used says."""

    what = "the file"
    meanwhile = "the one before stays in force"  # what follows from a file that is refused
    refused = ""  # why the file as it is now is not in force
    _asked = False

    def __init__(self, path: Path, parse: Callable[[str, str], T]) -> None:
        """Read it for the first time. Raises InputError: a service does not start with a bad file."""
        self._path: Path | None = path if files.is_file(path) else None  # a pipe cannot be read again
        self._parse = parse
        self._text = read_text(path)
        self.loaded = parse(self._text, str(path))

    def ask(self) -> None:
        """Have the file read at the next chance, and say what came of it; may be called by a signal."""
        self._asked = True

    def refresh(self) -> bool:
        """Take over the file if it has changed; returns whether another text is in force now."""
        asked = self._asked
        self._asked = False
        if self._path is None:
            return False
        try:
            text = read_text_again(self._path)
            if not asked and not self.refused and text == self._text:
                return False
            loaded = self._parse(text, str(self._path))
        except InputError as error:
            if asked or str(error) != self.refused:
                LOGGER.error("%s is refused, %s: %s", self.what, self.meanwhile, error)
            self.refused = str(error)
            return False
        changed = text != self._text
        self.loaded = loaded
        self._text = text
        self.refused = ""
        now = "in force from now on" if changed else "unchanged, and in force"
        LOGGER.info("%s is %s", self._named(), now)
        return changed

    def _named(self) -> str:
        return f"{self.what} {self._path}"


class PolicyInForce(FileInForce[LoadedPolicy]):
    """The policy of the last file that could be used."""

    what = "the policy"
    meanwhile = "nothing is evicted until it can be used, and plans are made by the one before"

    def __init__(self, path: Path | None) -> None:
        """Read it for the first time. Raises InputError: a service does not start with a bad policy."""
        if path is not None:
            super().__init__(path, parse_policy_file)
            return
        self._path = None
        self.loaded = default_policy()

    def _named(self) -> str:
        return f"{self.what} {self.loaded.policy.metadata.name}"

    def now(self) -> LoadedPolicy:
        """The policy as its file says now, in force or not. Raises InputError where it cannot be used."""
        if self._path is None:
            return self.loaded
        text = read_text_again(self._path)
        if text == self._text:
            return self.loaded
        return self._parse(text, str(self._path))
