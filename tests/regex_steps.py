"""Counts what a backtracking matcher does with a pattern and a text: the same number on every machine.

``re`` does not say how many steps it took, and a clock says it differently on a busy machine. This matcher
walks the tree that ``re`` itself parses, in the order in which ``re`` tries things, and counts each try.
Where ``re`` has a shortcut, such as a search for a literal prefix, it does less than is counted here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Then = Callable[[int], bool]
MAX_PAIRS = 25


class TooManyStepsError(Exception):
    """The matcher was stopped: the pattern takes more steps than were allowed."""


class StepCounter:
    """Tries one pattern on texts. A match is not wanted: only how much is tried before there is none."""

    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        compiled = re.compile(pattern, flags)
        self._flags = compiled.flags
        self._tree = parser.parse(pattern, compiled.flags & ~re.DEBUG)
        self.steps = 0
        self._most = 0
        self._text = ""
        self._groups: dict[int, tuple[int, int]] = {}
        self._known: dict[Any, bool] = {}  # whether a part takes a character

    def fullmatch(self, text: str, most: int) -> int:
        """Steps of ``fullmatch``, ``most`` at most."""
        return self._counted(text, most, (0,), lambda end: end == len(text))

    def match(self, text: str, most: int) -> int:
        """Steps of ``match`` at the beginning, ``most`` at most."""
        return self._counted(text, most, (0,), lambda _end: True)

    def everywhere(self, text: str, most: int) -> int:
        """Steps of a search that goes on through the whole text, from the end of each match."""
        return self._counted(text, most, None, lambda _end: True)

    def _counted(self, text: str, most: int, starts: tuple[int, ...] | None, end: Then) -> int:
        self._text, self.steps, self._most = text, 0, most
        found = -1

        def accepted(at: int) -> bool:
            nonlocal found
            if not end(at):
                return False
            found = at
            return True

        at = 0
        while at <= len(text):
            self._groups = {}
            if self._sequence(self._tree.data, 0, at, accepted):
                at = max(found, at + 1)
            else:
                at += 1
            if starts is not None:
                break
        return self.steps

    def _sequence(self, items: list[Any], index: int, at: int, then: Then) -> bool:
        if index == len(items):
            return then(at)
        self.steps += 1
        if self.steps > self._most:
            raise TooManyStepsError
        operation, argument = items[index]

        def after(position: int) -> bool:
            return self._sequence(items, index + 1, position, then)

        text = self._text
        if operation in (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT):
            return self._repeat(operation, argument, at, after)
        if operation is names.BRANCH:
            for branch in argument[1]:  # noqa: SIM110 - a loop, because any() would take room of the C stack
                if self._sequence(branch.data, 0, at, after):
                    return True
            return False
        if operation is names.SUBPATTERN:
            group, _, _, inner = argument

            def closed(position: int) -> bool:
                if group is not None:
                    self._groups[group] = (at, position)
                return after(position)

            return self._sequence(inner.data, 0, at, closed)
        if operation in (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN):
            return at < len(text) and self._takes(operation, argument, text[at]) and after(at + 1)
        return self._decided(operation, argument, at, after)

    def _decided(self, operation: Any, argument: Any, at: int, after: Then) -> bool:
        """A part that matches in one way or none."""
        if operation is names.ATOMIC_GROUP:
            ends = self._ends(argument.data, at)
            return ends is not None and after(ends)
        if operation in (names.ASSERT, names.ASSERT_NOT):
            direction, inner = argument
            start = at if direction > 0 else at - inner.getwidth()[0]
            holds = start >= 0 and self._ends(inner.data, start) is not None
            return holds == (operation is names.ASSERT) and after(at)
        if operation is names.AT:
            return self._stands(argument, at) and after(at)
        if operation is names.GROUPREF:
            begin, end = self._groups.get(argument, (0, -1))
            same = end >= 0 and self._text.startswith(self._text[begin:end], at)
            return same and after(at + end - begin)
        raise NotImplementedError(f"{operation}: teach the step counter what it does")

    def _ends(self, items: list[Any], at: int) -> int | None:
        """Where the first match of a part ends that does not look back."""
        found: list[int] = []
        return found[0] if self._sequence(items, 0, at, lambda end: not found.append(end)) else None  # type: ignore[func-returns-value]

    def _repeat(self, operation: Any, argument: Any, at: int, after: Then) -> bool:
        least, most, inner = argument
        items = inner.data
        if len(items) == 1 and items[0][0] in (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN):
            return self._simple_repeat(operation, items[0], (least, most), at, after)
        if operation is names.POSSESSIVE_REPEAT:
            count = 0
            while count < most:
                end = self._ends(items, at)
                if end is None or end == at:
                    break
                at, count = end, count + 1
            return count >= least and after(at)

        def again(count: int, begin: int) -> Then:
            def then(position: int) -> bool:
                if position == begin and count > least:
                    return False
                return more(count, position)

            return then

        def more(count: int, position: int) -> bool:
            if operation is names.MIN_REPEAT and count >= least and after(position):
                return True
            if count < most and self._sequence(items, 0, position, again(count + 1, position)):
                return True
            return operation is not names.MIN_REPEAT and count >= least and after(position)

        return more(0, at)

    def _simple_repeat(
        self, operation: Any, item: Any, bounds: tuple[int, Any], at: int, after: Then
    ) -> bool:
        """A repeat of one character, without a call for each."""
        least, most = bounds
        end = at
        while end < len(self._text) and end - at < most and self._takes(item[0], item[1], self._text[end]):
            end += 1
            self.steps += 1
        if self.steps > self._most:
            raise TooManyStepsError
        if end - at < least:
            return False
        if operation is names.POSSESSIVE_REPEAT:
            return after(end)
        order = (
            range(at + least, end + 1) if operation is names.MIN_REPEAT else range(end, at + least - 1, -1)
        )
        for stop in order:  # noqa: SIM110 - a loop, as above
            if after(stop):
                return True
        return False

    def _takes(self, operation: Any, argument: Any, character: str) -> bool:
        key = (id(argument) if isinstance(argument, list) else argument, operation, character)
        if key not in self._known:
            self._known[key] = self._is_taken(operation, argument, character)
        return self._known[key]

    def _is_taken(self, operation: Any, argument: Any, character: str) -> bool:
        code = ord(character)
        if operation is names.ANY:
            return character != "\n" or bool(self._flags & re.DOTALL)
        if self._flags & re.IGNORECASE:
            both = {ord(form) for form in (character.lower(), character.upper()) if len(form) == 1}
        else:
            both = {code}
        if operation is names.LITERAL:
            return argument in both
        if operation is names.NOT_LITERAL:
            return argument not in both
        if operation is names.IN:
            return any(self._in(argument, one) for one in both)
        raise NotImplementedError(f"{operation}: teach the step counter what it does")

    def _in(self, members: Any, code: int) -> bool:
        negated = members[0][0] is names.NEGATE
        for operation, argument in members[negated:]:
            if operation is names.LITERAL:
                found = argument == code
            elif operation is names.RANGE:
                found = argument[0] <= code <= argument[1]
            elif operation is names.CATEGORY:
                found = _category(argument, chr(code), ascii_only=bool(self._flags & re.ASCII))
            else:
                raise NotImplementedError(f"{operation}: teach the step counter what it does")
            if found:
                return not negated
        return bool(negated)

    def _stands(self, where: Any, at: int) -> bool:
        text = self._text
        if where in (names.AT_BEGINNING, names.AT_BEGINNING_STRING):
            return at == 0
        if where is names.AT_END:
            return at == len(text) or text[at:] == "\n"
        if where is names.AT_END_STRING:
            return at == len(text)
        word = [0 <= one < len(text) and _word(text[one]) for one in (at - 1, at)]
        return (word[0] != word[1]) == (where is names.AT_BOUNDARY)


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _category(which: Any, character: str, *, ascii_only: bool) -> bool:
    plain = str(which).removeprefix("CATEGORY_")
    kind = plain.removeprefix("NOT_")
    tests: dict[str, Callable[[str], bool]] = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": _word}
    found = tests[kind](character) and (character.isascii() or not ascii_only)
    return found != plain.startswith("NOT_")


def hostile_texts(pattern: str | bytes, length: int, flags: int = 0) -> Iterator[str]:
    """Texts that let the pattern go far before it fails: each of its parts over and over, and pairs of them.

    Before them stands what the pattern has matched until then, and behind them what it matches nowhere.
    """
    tree = list(parser.parse(pattern, re.compile(pattern, flags).flags & ~re.DEBUG))
    before = [_example(tree[:end]) for end in range(len(tree) + 1)]
    pieces = _examples(_parts(tree))
    found = [(prefix, [piece]) for piece in (*pieces, *before) for prefix in ("", "\0")]
    found += [
        (prefix, [piece])
        for index, prefix in enumerate(before[:-1])
        for piece in _examples(_parts(tree[index : index + 2]))
    ]
    found += [("", [one + other]) for one in pieces for other in pieces if len(one + other) == 2][:MAX_PAIRS]
    found += [("", [one, other]) for one, other in pairwise(pieces)]
    for prefix, repeated in dict.fromkeys((prefix, tuple(parts)) for prefix, parts in found if all(parts)):
        yield prefix + "".join(part * (length // len(repeated) // len(part)) for part in repeated) + "\0"


def _examples(parts: Iterator[list[Any]]) -> list[str]:
    return list(dict.fromkeys(_example(items)[:20] for items in parts))


def _parts(items: Any) -> Iterator[list[Any]]:
    for item in items:
        operation, argument = item
        yield [item]
        if operation in (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT):
            yield list(argument[2])
            yield from _parts(argument[2])
        elif operation is names.SUBPATTERN:
            yield from _parts(argument[3])
        elif operation is names.ATOMIC_GROUP:
            yield from _parts(argument)
        elif operation is names.BRANCH:
            for branch in argument[1]:
                yield list(branch)
                yield from _parts(branch)
        elif operation in (names.ASSERT, names.ASSERT_NOT):
            yield from _parts(argument[1])
        elif operation is names.IN:
            yield from ([(names.IN, [member])] for member in argument if member[0] is not names.NEGATE)


def _example(items: Any) -> str:
    """A text that the items match."""
    text = ""
    for operation, argument in items:
        if operation is names.LITERAL:
            text += chr(argument)
        elif operation in (names.NOT_LITERAL, names.ANY, names.IN):
            text += _character(operation, argument)
        elif operation in (names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT):
            text += _example(argument[2]) * max(1, argument[0])
        elif operation is names.SUBPATTERN:
            text += _example(argument[3])
        elif operation is names.ATOMIC_GROUP:
            text += _example(argument)
        elif operation is names.BRANCH:
            text += _example(argument[1][0])
    return text


_TRIED = (*range(97, 123), *range(32, 127), *range(32), *range(127, 1 << 16))  # letters first


def _character(operation: Any, argument: Any) -> str:
    if operation is names.ANY:
        return "a"
    counter = StepCounter("")
    return next(filter(lambda character: counter._takes(operation, argument, character), map(chr, _TRIED)))
