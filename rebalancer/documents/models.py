"""Checks a document against a pydantic model; every problem is reported with its position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from rebalancer.documents.reading import Document, Path, Place
from rebalancer.errors import InputError
from rebalancer.redaction import without_secrets

Model = TypeVar("Model", bound=BaseModel)
_MAX_SHOWN_LENGTH = 60
_MAX_PROBLEMS = 10
_KNOWN_FIELDS = "known fields: "


def to_camel(name: str) -> str:
    """``api_version`` as documents write it: ``apiVersion``.

    That of pydantic searches by three patterns, for each of the 700 fields that are there at a start.
    """
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class WrittenModel(BaseModel):
    """A frozen part of a document: snake_case in Python, camelCase in text; unknown fields are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        defer_build=True,  # a document builds what it needs when the first is read
    )


def did_you_mean(
    name: str, names_there_are: Iterable[str], *, fallback: str = "", cutoff: float = 0.6
) -> str:
    """``did you mean X?`` for the known name nearest to ``name``; ``fallback`` when none is near."""
    import difflib  # noqa: PLC0415 - only for mistakes

    names = sorted(set(names_there_are))
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    nearest = difflib.get_close_matches(name.lower(), list(by_lower_case), n=1, cutoff=cutoff)
    return f"did you mean {by_lower_case[nearest[0]]}?" if nearest else fallback


def validate(model: type[Model], document: Document, *, path: Path = (), value: Any = None) -> Model:
    """A model from the part of a document at ``path``.

    ``value`` stands for that part when it is given. Types are strict: text is not a number. Raises
    InputError that names every problem, the first ones in the order of the file.
    """
    part = document.value if value is None else value
    if value is None:
        for key in path:
            part = part[key]
    try:
        return model.model_validate_json(json.dumps(part), strict=True)
    except ValidationError as error:
        raise _problems(error, model, document, path, part) from error


def _problems(
    error: ValidationError, model: type[BaseModel], document: Document, base: Path, part: Any
) -> InputError:
    problems = [problem for problem in error.errors(include_url=False) if not _is_an_echo(problem)]
    located = [(_path_of(problem["loc"], part), problem) for problem in problems]

    def order(entry: tuple[Path, Any]) -> tuple[bool, Place, str]:
        """Missing fields come last: a misspelt one explains them."""
        kind = entry[1]["type"]
        place = document.place((*base, *entry[0]), key=kind == "extra_forbidden")
        return kind == "missing", place, kind

    # A document of another kind has other fields, and that each of them is wrong says nothing.
    located = [entry for entry in located if (*base, *entry[0]) == ("kind",)] or located
    errors = []
    listed = set()  # the fields of a part, which are named once
    for path, problem in sorted(located, key=order):
        written = document.texts.get((*base, *path)) or _shown(problem["input"])
        message, hint = _sentence(problem, model, path, written)
        unknown = problem["type"] == "extra_forbidden"
        if hint.startswith(_KNOWN_FIELDS):
            hint = "" if hint in listed else hint
            listed.add(hint)
        errors.append(document.error((*base, *path), message, hint=hint, key=unknown))
    if len(errors) == 1:
        return errors[0]
    lines = list(dict.fromkeys(map(str, errors[:_MAX_PROBLEMS])))
    if len(errors) > _MAX_PROBLEMS:
        more = len(errors) - _MAX_PROBLEMS
        lines.append(f"and {more} more {'problem' if more == 1 else 'problems'} in this document")
    return InputError("; ".join(lines), lines=tuple(lines))


def _is_an_echo(problem: Any) -> bool:
    """Whether this is pydantic's "too short" about a list whose items were themselves wrong."""
    return problem["type"] == "too_short" and bool(problem["input"])


def _path_of(location: Sequence[str | int], part: Any) -> Path:
    """The location without pydantic's own marks: union tags ``<…>`` and mapping keys ``[key]``."""
    path: list[str | int] = []
    for step in location:
        is_mark = isinstance(step, str) and (step.startswith("<") or step == "[key]")
        if is_mark and not (isinstance(part, dict) and step in part):  # a file may have such a key itself
            continue
        if isinstance(step, str) and not isinstance(part, dict):
            continue
        path.append(step)
        try:
            part = part[step]
        except (KeyError, IndexError, TypeError):
            part = {}
    return tuple(path)


def _sentence(problem: Any, model: type[BaseModel], path: Path, written: str) -> tuple[str, str]:
    """The problem, and a suggestion; ``written`` is how the file writes the value."""
    kind = problem["type"]
    if kind == "extra_forbidden":
        keys = {
            _written_name(name, field)
            for candidate in _models_at(model, path[:-1])
            for name, field in candidate.model_fields.items()
        }
        listed = f"{_KNOWN_FIELDS}{', '.join(sorted(keys))}" if keys else "it takes no fields"
        return "unknown field", did_you_mean(str(path[-1]) if path else "", keys, fallback=listed)
    if kind == "missing":
        return "is required", ""
    if kind in ("value_error", "assertion_error"):
        return str(problem["ctx"]["error"]), ""
    if kind == "too_short":
        return "must not be empty", ""
    if kind == "too_long":
        context = problem["ctx"]
        return f"has {context['actual_length']} entries, and may have {context['max_length']}", ""
    if kind in ("enum", "literal_error"):
        shown = _shown(problem["input"])
        expected = str(problem["ctx"]["expected"])
        names = [name.strip(" '") for name in expected.replace(" or ", ",").split(",")]
        return f"{shown} is unknown; known: {', '.join(names)}", did_you_mean(str(problem["input"]), names)
    if kind == "one_key":
        needed, _, note = problem["msg"].partition("; ")  # a note begins with the key that it is about
        given = problem["input"] if isinstance(problem["input"], dict) else {}
        complaint = problem["msg"] if note.partition(" ")[0] in given else needed
        return _misspelt_key(needed, given) or (complaint, "")
    if kind == "string_pattern_mismatch":
        examples = _examples_at(model, path)
        shown = f"{_shown(problem['input'])} does not have the expected form"
        return shown, f"write e.g. {', '.join(examples)}" if examples else ""
    message = problem["msg"].replace("Input should", "should", 1)
    message = message.replace("a valid dictionary", "a mapping").replace("an object", "a mapping")
    message = message.replace("a valid array", "a list").replace("a valid tuple", "a list")
    if kind == "string_type" and isinstance(problem["input"], (int, float)):
        return f"{message}, not {written}", f'quote it: "{written}"'
    return f"{message}, not {_shown(problem['input'])}", ""


def _misspelt_key(needed: str, given: dict[Any, Any]) -> tuple[str, str] | None:
    """Of a mapping that has none of the keys it needs: the key that is probably one of them."""
    keys = needed.rpartition(" keys ")[2].replace(" or ", ", ").split(", ")
    if not set(keys).isdisjoint(given):
        return None
    for key in given:
        hint = did_you_mean(str(key), keys)
        if hint:
            return f"unknown key {key!s:.60}", hint
    return None


def _shown(value: Any) -> str:
    """A value as the writer of the document knows it, shortened."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = without_secrets(json.dumps(value, ensure_ascii=False))  # before it is cut: a login may be
    return text if len(text) <= _MAX_SHOWN_LENGTH else text[:_MAX_SHOWN_LENGTH] + "…"


def _examples_at(model: type[BaseModel], path: Path) -> list[str]:
    """The examples of the field at ``path``, or of the entries of the list or mapping that it is one of."""
    named = [step for step in path if isinstance(step, str)]
    for last in (len(named) - 1, len(named) - 2):
        for candidate in _models_at(model, tuple(named[:last])) if last >= 0 else ():
            for name, field in candidate.model_fields.items():
                if _written_name(name, field) == named[last]:
                    return [str(example) for example in _examples_of(field)]
    return []


def _examples_of(field: FieldInfo) -> Sequence[Any]:
    extra = field.json_schema_extra
    examples = field.examples or (extra.get("examples") if isinstance(extra, dict) else None)
    inner = (part for part in _parts_of(field.annotation) if isinstance(part, FieldInfo) and part.examples)
    return examples if isinstance(examples, list) else next((part.examples or () for part in inner), ())


def _parts_of(annotation: Any) -> Iterator[Any]:
    for part in get_args(annotation):
        yield part
        yield from _parts_of(part)


def _models_at(model: type[BaseModel], path: Path) -> set[type[BaseModel]]:
    """The models whose fields may stand below ``path``."""
    models = {model}
    for step in path:
        if isinstance(step, int):
            continue
        inner = {
            inner_model
            for candidate in models
            for name, field in candidate.model_fields.items()
            if _written_name(name, field) == step
            for inner_model in _models_in(field.annotation)
        }
        models = inner or models
    return models


def _written_name(name: str, field: FieldInfo) -> str:
    """What a field is called in a document."""
    return field.validation_alias if isinstance(field.validation_alias, str) else name


def _models_in(annotation: Any) -> set[type[BaseModel]]:
    """Every model an annotation mentions, with those that complete it when the first document is read."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation, *annotation.__subclasses__()}
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    return {inner for argument in arguments for inner in _models_in(argument)}
