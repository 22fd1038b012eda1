"""Answers of Prometheus kept with a snapshot, so that a plan can be made from them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.prometheus.questions import Ask, Question

DOCUMENT = "prometheus.json"


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    time: float = 0.0  # Unix seconds: the moment that was asked for
    answers: dict[str, dict[str, msgspec.Raw]] = {}  # by address, then by question
    failures: dict[str, dict[str, str]] = {}


_decoder = msgspec.json.Decoder(_Document)


@dataclass(slots=True)
class AnswerBook:
    """Answers by address and question."""

    time: float = 0.0  # Unix seconds by our clock, when the questions were asked
    answers: dict[str, dict[str, bytes]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def asking(self, address: str, where: str) -> Ask:
        """Answers questions of an address from the book; InputError for what is not in it."""

        def ask(question: Question) -> bytes:
            found = self.answers.get(address, {}).get(question.key)
            if found is not None:
                return found
            why = self.failures.get(address, {}).get(question.key, "not recorded")
            raise InputError(f"{address}: {why}", where=where, hint="record the cluster with this policy")

        return ask

    def keeping(self, address: str, ask: Ask) -> Ask:
        """Asks, and writes what came into the book."""

        def kept(question: Question) -> bytes:
            try:
                content = ask(question)
                msgspec.json.decode(content, type=msgspec.Raw)  # the reader decodes it; here it must be JSON
            except (RebalancerError, ValueError, RecursionError) as error:
                self.failures.setdefault(address, {})[question.key] = str(error)
                raise
            self.answers.setdefault(address, {})[question.key] = content
            return content

        return kept

    def encode(self) -> bytes:
        """The document that a snapshot holds."""
        return msgspec.json.encode({"time": self.time, "answers": self._raw(), "failures": self.failures})

    def encode_answers(self) -> bytes:
        """The answers alone: what a plan is a function of."""
        return msgspec.json.encode(self._raw())

    def _raw(self) -> Mapping[str, Mapping[str, msgspec.Raw]]:
        return {
            address: {key: msgspec.Raw(content) for key, content in sorted(found.items())}
            for address, found in sorted(self.answers.items())
        }


def decode_book(content: bytes, where: str) -> AnswerBook:
    """The book read back; InputError when it is none."""
    try:
        document = _decoder.decode(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not what snapshot save writes: {error}", where=where) from error
    answers = {
        address: {key: bytes(raw) for key, raw in found.items()}
        for address, found in document.answers.items()
    }
    return AnswerBook(document.time, answers, document.failures)
