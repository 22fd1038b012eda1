"""What an import collects: the keys of the new policy, and a note for every key of the old one."""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from rebalancer.documents.reading import Document, Path
from rebalancer.policy.schema import SYSTEM_NAMESPACE, Protection, RebalancePolicy
from rebalancer.policy.units import format_duration

_MAX_NAME = 253  # characters of metadata.name

_HEADER = "Imported from {}. Compare what it does with: rebalancer plan --policy THIS_FILE"
_SCHEDULERS = (
    "Descheduler knows no schedulers: pods that name another schedulerName than default-scheduler stay until "
    "scheduler.configMap names the configuration of theirs; rebalancer policy init --suggest finds it."
)
_COLUMNS = 80


class KeyFate(StrEnum):
    """What became of a key."""

    MAPPED = "mapped"
    CHANGED = "changed"  # mapped to something close, with a difference that the note names
    NARROWED = "narrowed"  # here it holds for every strategy: less is evicted
    DROPPED = "not mapped"
    IDLE = "no effect"  # there either
    IGNORED = "ignored by descheduler"  # a mistake of whoever wrote the file


class Note(msgspec.Struct, frozen=True):
    """A key of the imported file, what became of it, and to which key of ours or why not."""

    where: str  # file:line:column
    key: str
    fate: KeyFate
    text: str

    @property
    def sentence(self) -> str:
        """What became of the key, as a sentence with its place."""
        becomes = _OURS.fullmatch(self.text)
        if self.fate is KeyFate.DROPPED:
            outcome = f"{self.key} is not mapped: {self.text}"
        elif self.fate is KeyFate.IDLE:
            outcome = f"{self.key} has no effect in descheduler either: {self.text}"
        elif self.fate is KeyFate.IGNORED:
            outcome = f"descheduler ignores {self.key}: {self.text}"
        elif becomes is not None:
            outcome = f"{self.key} becomes {self.text}"
        else:
            outcome = f"{self.key}: {_with_capital(self.text)}"
        return f"{self.where} {outcome}."


# A key of ours, or several, perhaps followed by what is different about it.
_OURS = re.compile(
    r"(?:evictable|hotNodes|limits|load|planning|strategies)[\w.\[\]]*[:;,].*"
    r"|(?:evictable|hotNodes|limits|load|planning|strategies)[\w.\[\]]*"
)
_PLAIN_WORD = re.compile(r"[a-z]+[ ,:].*", re.DOTALL)


def _with_capital(text: str) -> str:
    """The text as a sentence begins, unless it begins with a name."""
    return text[:1].upper() + text[1:] if _PLAIN_WORD.fullmatch(text) else text


class Imported(msgspec.Struct, frozen=True):
    """The new policy as plain values, and the notes in the order of the file."""

    source: str
    policy: Mapping[str, Any]
    notes: tuple[Note, ...]

    @property
    def warning(self) -> str:
        """That the policy does not do what the file asks for, and by which keys; empty where it does."""
        fates = []
        for fate in (KeyFate.DROPPED, KeyFate.NARROWED):
            keys = dict.fromkeys(note.key for note in self.notes if note.fate is fate)
            if keys:
                fates.append(f"{', '.join(keys)} {fate}")
        return f"NOT EQUIVALENT to {self.source}: {'; '.join(fates)}, see the notes" if fates else ""

    @property
    def mistakes(self) -> str:
        """Which keys of the file descheduler itself ignores; empty for none."""
        keys = dict.fromkeys(note.key for note in self.notes if note.fate is KeyFate.IGNORED)
        if not keys:
            return ""
        return f"descheduler ignores {', '.join(keys)} of {self.source}: a mistake in the file, see the notes"

    def header(self) -> str:
        """What is not equivalent, then the notes, as YAML comments to stand above the policy."""
        head = [line for line in (self.warning, self.mistakes, _HEADER.format(self.source)) if line]
        notes = [note.sentence for note in self.notes]
        return "".join(
            [
                *map(_comment, head),
                *(_comment(text, 2) for text in notes),
                _comment(_differences()),
                _comment(_SCHEDULERS),
            ]
        )


def _comment(text: str, indented: int = 0) -> str:
    """A paragraph of comment."""
    indent = "# " + " " * indented
    later = indent + "  " if indented else indent
    filled = textwrap.fill(
        text,
        _COLUMNS,
        initial_indent=indent,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled + "\n"


def is_number(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


class Import(msgspec.Struct):
    """An import under way; every key that a mapping looks at gets exactly one note."""

    document: Document
    policy: dict[str, Any] = {}
    notes: list[tuple[Path, KeyFate, str]] = []
    seen: set[Path] = msgspec.field(default_factory=set)
    narrowed: set[Path] = msgspec.field(default_factory=set)  # keys of some plugins that hold for all here

    def set(self, path: Path, ours: str, value: Any, text: str = "") -> None:
        """Map the key at ``path`` to our key, such as ``limits.perNode``."""
        self.write(ours, value)
        self.note(path, KeyFate.CHANGED if text else KeyFate.MAPPED, f"{ours}{': ' if text else ''}{text}")

    def write(self, ours: str, value: Any) -> None:
        """Give our key a value, whatever is said of theirs."""
        at = self.policy
        *parents, last = ours.split(".")
        for name in parents:
            at = at.setdefault(name, {})
        at[last] = value

    def add(self, path: Path, ours: str, values: Sequence[Any], text: str = "") -> None:
        """Add to a list of ours."""
        self.set(path, ours, list(dict.fromkeys((*(self.ours(ours) or ()), *values))), text)

    def tighten(self, at: Path, values: Mapping[str, Any], key: str, ours: str) -> None:
        """Map the number under a key to a limit of ours, which is the least that the file states."""
        before = self.ours(ours)
        if is_number(before) and is_number(values.get(key)) and before < values[key]:
            self.note((*at, key), KeyFate.MAPPED, f"{ours}: {before}, which the file states for all")
        else:
            self.take(at, values, key, int, ours)

    def ours(self, name: str) -> Any:
        """The value of a key of ours so far; None where there is none."""
        at: Any = self.policy
        for part in name.split("."):
            at = at.get(part, {})
        return None if at == {} else at

    def take(
        self, at: Path, values: Mapping[str, Any], key: str, kind: type, ours: str, text: str = ""
    ) -> None:
        """Map the value under a key to our key, where it has this type; ``at`` is where the values stand."""
        value = values.get(key)
        if isinstance(value, kind) and not isinstance(value, bool):
            self.set((*at, key), ours, dict(value) if isinstance(value, Mapping) else value, text)

    def drop(self, path: Path, why: str) -> None:
        """Note that a key has no counterpart."""
        self.note(path, KeyFate.DROPPED, why)

    def note(self, path: Path, fate: KeyFate, text: str) -> None:
        """Say what became of a key."""
        self.seen.add(path)
        mapped = fate in (KeyFate.MAPPED, KeyFate.CHANGED)
        if mapped and any(path[: len(prefix)] == prefix for prefix in self.narrowed):
            fate = KeyFate.NARROWED
            text = f"{text}: for all strategies, as a policy has one"
        self.notes.append((path, fate, text))

    def has_seen(self, path: Path) -> bool:
        """Whether a key at the path, or below it, was looked at."""
        return any(seen[: len(path)] == path for seen in self.seen)

    def drop_unseen(self, path: Path, values: Mapping[str, Any], why: str) -> None:
        """Drop the keys of a mapping that nobody looked at."""
        for key in values:
            if not self.has_seen((*path, key)):
                self.drop((*path, key), why)

    def mapping(self, path: Path, value: Any) -> Mapping[str, Any]:
        """The mapping at a path, empty where nothing is written. Raises InputError for anything else."""
        if value is not None and not isinstance(value, Mapping):
            raise self.document.error(path, "should be a mapping")
        return value or {}

    def items(self, path: Path, value: Any) -> Sequence[Any]:
        """The list at a path, empty where nothing is written. Raises InputError for anything else."""
        if value is not None and not isinstance(value, list):
            raise self.document.error(path, "should be a list")
        return value or ()

    def _name(self, path: Path) -> str:
        """The key at a path; of an entry of a list, the entry itself, and of a plugin its name."""
        if not path:
            return str(self.document.value.get("kind", ""))[:60]
        if isinstance(path[-1], str) and path[-1] != "name":
            return path[-1]
        at = self.document.value
        for part in path:
            if part == "name" and not (isinstance(at, Mapping) and part in at):
                return "name"  # which is missing
            at = at[part]
        return str(at)[:60]

    def result(self, source: str) -> Imported:
        """The policy, and the notes in the order of the file."""
        notes = sorted(
            dict.fromkeys(self.notes),  # what two profiles of OpenShift say alike, once
            key=lambda note: (self.document.place(note[0], key=True), note[0][-1:] != ()),
        )
        names = [str(field.alias) for field in RebalancePolicy.model_fields.values()]
        return Imported(
            source,
            {
                "apiVersion": "rebalancer/v1alpha1",
                "kind": "RebalancePolicy",
                "metadata": {"name": self._policy_name(source)},
                **{name: self.policy[name] for name in names if self.policy.get(name, {}) != {}},
            },
            tuple(
                Note(self.document.position(path, key=True), self._name(path), fate, text)
                for path, fate, text in notes
            ),
        )

    def _policy_name(self, source: str) -> str:
        """The name of the object or of its only profile, else of the file: reports show it."""
        value = self.document.value
        profiles = value.get("profiles")
        metadata = value.get("metadata")
        only_profile = profiles[0] if isinstance(profiles, list) and len(profiles) == 1 else None
        for named in (metadata, only_profile):
            name = named.get("name") if isinstance(named, Mapping) else None
            if isinstance(name, str) and 0 < len(name) <= _MAX_NAME:
                return name
        return pathlib.PurePath(source).stem[:_MAX_NAME] or "imported"


def _differences() -> str:
    """What holds here and in no descheduler, with the defaults of today."""
    defaults = RebalancePolicy()
    limits = defaults.limits
    evictable = defaults.evictable
    # Descheduler protects pods with local storage too.
    kinds = [kind for kind in evictable.protect if kind is not Protection.LOCAL_STORAGE]
    protected = ", ".join((*kinds, f"namespace {SYSTEM_NAMESPACE}"))
    return (
        "Where the file says nothing, rebalancer also applies these rules, which descheduler lacks: every "
        f"eviction needs an acceptable landing; limits ({limits.per_run} a run, {limits.per_node} a node, "
        f"{limits.per_namespace} a namespace, {limits.per_workload} of a workload), "
        f"evictable.minAge {format_duration(evictable.min_age)}, protected pods ({protected}), "
        f"hotNodes.forRuns {defaults.hot_nodes.for_runs}; pods of Jobs (evictable.jobs) and those annotated "
        "prefer-no-eviction stay. Which pods move under limits is not left to chance."
    )
