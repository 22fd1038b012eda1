"""The options that choose which rows are listed, named and meant as kubectl's: ``-n``, ``-A``, ``-l``, …"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rebalancer.cli.options.decorated import Command, with_options
from rebalancer.errors import InputError

if TYPE_CHECKING:
    from rebalancer.cluster.records import LabelSelector
    from rebalancer.cluster.selectors import FieldRequirement

namespace_option = click.option(
    "-n", "--namespace", metavar="NAMESPACE", help="List only the pods of this namespace."
)
all_namespaces_option = click.option(
    "-A", "--all-namespaces", is_flag=True, help="List the pods of all namespaces, as without -n."
)


class Labels(click.ParamType["LabelSelector"]):
    """A label selector, such as ``app=web,tier in (front,back)``."""

    name = "selector"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LabelSelector:
        """The selector."""
        from rebalancer.cluster.selectors import matcher, parse_labels  # noqa: PLC0415 - not for --help

        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already, click asks again
        try:
            found = parse_labels(value)
            matcher(found)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found


class Fields(click.ParamType["tuple[FieldRequirement, ...]"]):
    """Requirements on some fields, such as ``spec.nodeName=node-1``."""

    name = "selector"

    def __init__(self, known: Callable[[], tuple[str, ...]]) -> None:
        self.known = known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[FieldRequirement, ...]:
        """The requirements; fields that are not known are refused, as the API server does."""
        from rebalancer.cluster.selectors import parse_fields  # noqa: PLC0415 - not for --help

        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already, click asks again
        try:
            found = parse_fields(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        known = self.known()
        for item in found:
            if item.path not in known:
                self.fail(f"field {item.path[:60]!a} is not supported; known: {', '.join(known)}", param, ctx)
        return found


def pod_choice_options(command: Command) -> Command:
    """Give a command the options that choose pods, as one ``Choice`` named ``choice``."""

    def wrapped(**values: Any) -> Any:
        namespace, everywhere = values.pop("namespace"), values.pop("all_namespaces")
        if namespace is not None and everywhere:
            raise InputError("-n asks for one namespace, -A for all of them", hint="give one of them")
        return command(choice=_choice(namespace, values), **values)

    options = (namespace_option, all_namespaces_option, *_selector_options("pods", _pod_fields))
    return with_options(command, wrapped, options)


def node_choice_options(command: Command) -> Command:
    """Give a command the options that choose nodes, as one ``Choice`` named ``choice``."""

    def wrapped(**values: Any) -> Any:
        return command(choice=_choice(None, values), **values)

    return with_options(command, wrapped, _selector_options("nodes", _node_fields))


def _choice(namespace: str | None, values: dict[str, Any]) -> Any:
    labels, fields = values.pop("labels"), values.pop("fields")
    from rebalancer.reporting.chosen_rows import Choice  # noqa: PLC0415 - imports numpy

    return Choice(namespace, labels, fields or ())


def _selector_options(noun: str, known: Callable[[], tuple[str, ...]]) -> list[Callable[[Any], Any]]:
    example = "spec.nodeName=node-1" if noun == "pods" else "spec.unschedulable=true"
    return [
        click.option(
            *("-l", "--selector", "labels"),
            type=Labels(),
            metavar="SELECTOR",
            help=f"List only {noun} with these labels, e.g. app=web,tier!=cache.",
        ),
        click.option(
            *("--field-selector", "fields"),
            type=Fields(known),
            metavar="SELECTOR",
            help=f"List only {noun} with these fields, e.g. {example}.",
        ),
    ]


def _pod_fields() -> tuple[str, ...]:
    from rebalancer.reporting.chosen_rows import POD_FIELDS  # noqa: PLC0415 - imports numpy

    return POD_FIELDS


def _node_fields() -> tuple[str, ...]:
    from rebalancer.reporting.chosen_rows import NODE_FIELDS  # noqa: PLC0415 - imports numpy

    return NODE_FIELDS
