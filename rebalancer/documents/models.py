"""Checks a document against a pydantic model; the first problem becomes an error with its position."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rebalancer.documents.document import Document, Path, Place
from rebalancer.documents.suggestions import did_you_mean
from rebalancer.errors import InputError

Model = TypeVar("Model", bound=BaseModel)
_MAX_SHOWN_LENGTH = 60


def validate(model: type[Model], document: Document, *, path: Path = (), value: Any = None) -> Model:
    """A model from the part of a document at ``path``.

    ``value`` stands for that part when it is given. Types are strict: text is not a number. Raises
    InputError for the first problem in the order of the file, with the number of further ones.
    """
    part = document.value if value is None else value
    if value is None:
        for key in path:
            part = part[key]
    try:
        return model.model_validate_json(json.dumps(part), strict=True)
    except ValidationError as error:
        raise _first_problem(error, model, document, path, part) from error


def _first_problem(
    error: ValidationError, model: type[BaseModel], document: Document, base: Path, part: Any
) -> InputError:
    problems = [problem for problem in error.errors(include_url=False) if not _is_an_echo(problem)]
    located = [(_path_of(problem["loc"], part), problem) for problem in problems]

    def order(entry: tuple[Path, Any]) -> tuple[bool, Place, str]:
        """Missing fields come last: a misspelt one explains them."""
        kind = entry[1]["type"]
        place = document.place((*base, *entry[0]), key=kind == "extra_forbidden")
        return kind == "missing", place, kind

    path, problem = min(located, key=order)
    unknown = problem["type"] == "extra_forbidden"
    message, hint = _sentence(problem, model, path)
    others = len(problems) - 1
    if others:
        message += f"; and {others} more problem{'s' if others > 1 else ''} in this document"
    return document.error((*base, *path), message, hint=hint, key=unknown)


def _is_an_echo(problem: Any) -> bool:
    """Whether this is pydantic's "too short" about a list whose items were themselves wrong."""
    return problem["type"] == "too_short" and bool(problem["input"])


def _path_of(location: Sequence[str | int], part: Any) -> Path:
    """The location without pydantic's own marks: union tags ``<…>`` and mapping keys ``[key]``."""
    path: list[str | int] = []
    for step in location:
        if isinstance(step, str) and (step.startswith("<") or step == "[key]"):
            continue
        if isinstance(step, str) and not isinstance(part, dict):
            continue
        path.append(step)
        try:
            part = part[step]
        except (KeyError, IndexError, TypeError):
            part = {}
    return tuple(path)


def _sentence(problem: Any, model: type[BaseModel], path: Path) -> tuple[str, str]:
    """The problem, and a suggestion."""
    kind = problem["type"]
    if kind == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        listed = f"known fields: {', '.join(sorted(known))}" if known else "it takes no fields"
        return "unknown field", did_you_mean(str(path[-1]), known, otherwise=listed)
    if kind == "missing":
        return "is required", ""
    if kind in ("value_error", "assertion_error"):
        return str(problem["ctx"]["error"]), ""
    if kind == "too_short":
        return "must not be empty", ""
    if kind in ("enum", "literal_error"):
        shown = _shown(problem["input"])
        expected = str(problem["ctx"]["expected"])
        names = [name.strip(" '") for name in expected.replace(" or ", ",").split(",")]
        return f"{shown} is unknown; known: {', '.join(names)}", did_you_mean(str(problem["input"]), names)
    message = problem["msg"].replace("Input should", "should", 1)
    message = message.replace("a valid dictionary", "a mapping").replace("an object", "a mapping")
    message = message.replace("a valid array", "a list").replace("a valid tuple", "a list")
    if kind == "string_type" and isinstance(problem["input"], (int, float)):
        return f"{message}, not {_shown(problem['input'])}", f'quote it: "{problem["input"]}"'
    return (message if kind == "one_key" else f"{message}, not {_shown(problem['input'])}"), ""


def _shown(value: Any) -> str:
    """A value as the writer of the document knows it, shortened."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_LENGTH else text[:_MAX_SHOWN_LENGTH] + "…"


def _fields_at(model: type[BaseModel], path: Path) -> set[str]:
    """The names of the fields that may stand below ``path``."""
    models = {model}
    for step in path:
        if isinstance(step, int):
            continue
        inner = {
            found
            for candidate in models
            for name, field in candidate.model_fields.items()
            if _written_name(name, field) == step
            for found in _models_in(field.annotation)
        }
        models = inner or models
    return {
        _written_name(name, field) for candidate in models for name, field in candidate.model_fields.items()
    }


def _written_name(name: str, field: FieldInfo) -> str:
    """What a field is called in a document."""
    return field.validation_alias if isinstance(field.validation_alias, str) else name


def _models_in(annotation: Any) -> set[type[BaseModel]]:
    """Every model an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    return {found for argument in arguments for found in _models_in(argument)}
