"""``rebalancer policy``: write, check, show and translate policies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from rebalancer.cli.groups import LazyGroup
from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.options import (
    CONNECTION,
    DATA_FORMATS,
    FILE,
    PLAN,
    RECORDED,
    asked_again,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, with_progress, write, write_document
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import Format

if TYPE_CHECKING:
    from rebalancer.policy.policy_file import LoadedPolicy


@click.group(cls=LazyGroup, added_below="policy.")
def policy() -> None:
    """Write, check, show and translate policies."""


@policy.command()
@click.argument("path", type=FILE, required=False, metavar="[FILE]")
@click.option("--suggest", is_flag=True, help="Suit the cluster that kubectl would ask now.")
@plan_options(**RECORDED, **CONNECTION, scheduler_config=PLAN["scheduler_config"])
def init(path: Path | None, suggest: bool, options: PlanOptions) -> None:
    """Print a commented policy, or write it to a new FILE.

    With --suggest, or of the cluster that --from, --kubeconfig or --context names, the policy is one that
    suits it: the scheduler's configuration, thresholds, sources and limits by what is seen there, each with
    its reason. Otherwise every key is listed with its default.

    \b
    rebalancer policy init policy.yaml
    rebalancer policy init --suggest policy.yaml
    rebalancer policy init --from recorded/ policy.yaml
    """
    from rebalancer.policy.policy_file import starter  # noqa: PLC0415 - imports pydantic
    from rebalancer.reporting.words import plain  # noqa: PLC0415
    from rebalancer.run.first_policy import suggest_policy  # noqa: PLC0415 - not for --help

    text = starter()
    if suggest or any(place is not None for place in (options.source, options.kubeconfig, options.context)):
        text = with_progress(suggest_policy, replace(options, ignore_coverage=True)).text
    elif options.scheduler_config is not None or options.max_dump_bytes is not None:
        raise InputError(
            "a policy that suits a cluster needs the cluster",
            hint="give --suggest, --from, --kubeconfig or --context",
        )
    if path is None or str(path) == "-":
        write(text)
        return
    _write_new_file(path, text)
    again = asked_again("rebalancer plan", replace(options, policy_path=path))
    sys.stdout.write(f"{plain(str(path))}: written; next: {plain(again)}\n")


@policy.command()
@click.argument("paths", type=FILE, nargs=-1, required=True, metavar="FILE...")
@plan_options(**RECORDED, scheduler_config=PLAN["scheduler_config"])
@output_options(*DATA_FORMATS, lists=False)
def validate(paths: tuple[Path, ...], options: PlanOptions, output: Output) -> int:
    """Check policies, each with the scheduler configuration in or beside it.

    With --from, also that what they name is there: a protection that matches nothing is an error.
    """
    checked = [_checked(path, options) for path in paths]
    rows = [row for row, _ in checked]
    if output.format is Format.TABLE:
        for row, problems in checked:
            if row["valid"]:
                sys.stdout.write(f"{row['source']}: valid, policy {row['name']}\n")
            for warning in row["warnings"]:
                LOGGER.warning("%s: %s", row["source"], warning)
            for problem in problems:
                LOGGER.error("%s", problem)
    else:
        write_document(
            {"apiVersion": "rebalancer/v1alpha1", "kind": "PolicyValidation", "policies": rows}, output
        )
    return int(ExitCode.DONE if all(row["valid"] for row in rows) else ExitCode.BAD_INPUT)


def _checked(path: Path, options: PlanOptions) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is known of a policy, and its problems."""
    from rebalancer.observe.configuration import check_configuration  # noqa: PLC0415 - not for --help
    from rebalancer.policy.policy_file import load_policy  # noqa: PLC0415 - imports pydantic
    from rebalancer.reporting.words import plain  # noqa: PLC0415

    row: dict[str, Any] = {
        "source": plain(str(path)),
        "valid": False,
        "name": "",
        "inputs": "",
        "problem": "",
        "warnings": [],
    }
    try:
        loaded = load_policy(path)
        row |= {"name": plain(loaded.policy.metadata.name), "inputs": loaded.digest}
        row["warnings"] = list(loaded.policy.without_effect())
        check_configuration(loaded)
        if options.source is not None:
            row["warnings"] += _check_names(loaded, options)
    except InputError as error:
        return row | {"problem": plain(str(error))}, error.lines or (str(error),)
    return row | {"valid": True}, ()


def _check_names(loaded: LoadedPolicy, options: PlanOptions) -> list[str]:
    """What else a policy names that a recorded cluster does not have. InputError for a protection."""
    from rebalancer.observe.read import read_planners  # noqa: PLC0415 - not for --help
    from rebalancer.planning.inputs import About  # noqa: PLC0415
    from rebalancer.planning.unmatched_settings import ensure_protections  # noqa: PLC0415

    (planner,) = read_planners(options, (loaded,), None, None)
    inputs = planner.inputs
    ensure_protections(loaded.policy, inputs.snapshot)
    return [warning.sentence for warning in inputs.warnings if warning.about in (About.NAME, About.SETTING)]


def _write_new_file(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise InputError("already exists", where=str(path), hint="choose another file name") from error
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", where=str(path)) from error


@policy.command("show")
@click.argument("path", type=FILE, required=False, metavar="[FILE]")
@output_options(*DATA_FORMATS, lists=False)
def show_policy(path: Path | None, output: Output) -> None:
    """Show a policy with every default filled in.

    Without FILE, show the defaults; of a report in HTML, show the policy of its plan.
    """
    from rebalancer.policy.policy_file import default_policy, load_policy, shown  # noqa: PLC0415 - imports pydantic

    if path is not None and path.suffix.lower() in (".html", ".htm"):
        value = _of_report(path)
        hides = False
    else:
        loaded = load_policy(path) if path is not None else default_policy()
        value, hides = shown(loaded.policy)
    if hides:
        LOGGER.warning("secrets of the policy are shown as REDACTED: it cannot be used as printed")
    write_document(value, output)


def _of_report(path: Path) -> Any:
    from rebalancer.documents import parse, read_bytes  # noqa: PLC0415 - imports yaml
    from rebalancer.reporting.html.embedded import MAX_PLAN_BYTES, read_policy  # noqa: PLC0415

    text = read_policy(read_bytes(path, largest=MAX_PLAN_BYTES), str(path))
    return parse(text, str(path)).value


@policy.command("import")
@click.argument("path", type=FILE, metavar="FILE")
@output_options(*DATA_FORMATS, lists=False)
def import_foreign(path: Path, output: Output) -> int:
    """Print the policy that does what another descheduler's does.

    FILE is a DeschedulerPolicy (v1alpha1 or v1alpha2), OpenShift's KubeDescheduler, or what holds one: values
    of descheduler's Helm chart, a HelmRelease, an Argo CD Application or a ConfigMap. A comment for each key
    of it says what it became, or why it has no counterpart. Where that is so, the first comment and a warning
    say NOT EQUIVALENT, and the exit code is 4.
    """
    from rebalancer.documents import to_yaml as in_order  # noqa: PLC0415 - imports yaml
    from rebalancer.documents.manifests import MAX_MANIFEST_BYTES  # noqa: PLC0415 - the same
    from rebalancer.documents.reading import read_text  # noqa: PLC0415 - the same
    from rebalancer.policy.policy_file import parse_policy  # noqa: PLC0415 - imports pydantic
    from rebalancer.policy_import import import_policy  # noqa: PLC0415

    imported = import_policy(read_text(path, largest=MAX_MANIFEST_BYTES), str(path))
    text = in_order(imported.policy)
    parse_policy(text, f"the policy imported from {path}")
    for warning in filter(None, (imported.warning, imported.mistakes)):
        LOGGER.warning(warning)
    if output.format in (Format.JSON, Format.JSONPATH):
        document = {"policy": imported.policy, "notes": imported.notes}
        write_document({"apiVersion": "rebalancer/v1alpha1", "kind": "ImportedPolicy", **document}, output)
    else:
        write(imported.header() + text)
    return int(ExitCode.PARTLY_DONE if imported.warning else ExitCode.DONE)


@policy.command("schema")
@output_options(*DATA_FORMATS, lists=False)
def show_schema(output: Output) -> None:
    """Print the JSON schema of a policy, for editors and validation."""
    from rebalancer.policy.policy_file import schema  # noqa: PLC0415 - imports pydantic

    if output.format is Format.TABLE:
        write(json.dumps(schema(), indent=2) + "\n")
    else:
        write_document(schema(), output)
