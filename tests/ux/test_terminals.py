"""Every command on a real terminal: NO_COLOR and TERM=dumb are honoured, and long names break no table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rebalancer.cli.program import main
from tests.docs.outputs import a_folder_and_environment, page_cluster
from tests.ux.long_names import node_name, with_long_names
from tests.ux.terminal import on_a_terminal

POD = "pod/shop/checkout-api-gateway-7d9f8b6c5d-x2k03"
FROM = ("--from", "eks", "--policy", "examples/policy.yaml")
FILES = {
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: storefront-recommendations-worker}\n"
    "spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 500m}}}]}\n",
    "test.yaml": "apiVersion: rebalancer/v1alpha1\nkind: PolicyTest\nmaxEvictions: 9\n",
    "descheduler.yaml": "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: []\n",
    "journal": "",
}
# By command: how it is tried, once or several times. What changes the cluster comes in this order.
TRIED: dict[str, tuple[tuple[str, ...], ...]] = {
    "nodes": (FROM,),
    "plan": (FROM, (*FROM, "--all"), (*FROM, "--diff", "policies/conservative.yaml")),
    "explain": (
        FROM,
        (POD, *FROM),
        (f"node/{node_name(2)}", *FROM),
        ("deployment/shop/api", *FROM),
    ),
    "what-if": (("--drain", node_name(2), *FROM),),
    "fit": (("pod.yaml", *FROM),),
    "simulate": (("--cycles", "2", *FROM),),
    "fleet plan": (("--from", "eks"),),
    "snapshot info": (("eks",),),
    "snapshot save": (("copy", "--from", "eks"),),
    "policy import": (("descheduler.yaml",),),
    "policy init": (("--suggest", "--from", "eks"),),
    "policy schema": ((),),
    "policy show": (("examples/policy.yaml",),),
    "policy validate": (("examples/policy.yaml",),),
    "policy test": (("test.yaml", *FROM),),
    "agreement why": ((POD, *FROM),),
    "agreement": (("--for", "1s"),),
    "run": (("--policy", "examples/policy.yaml", "--dry-run"),),
    "journal show": ((), ("journal",)),
    "journal in-flight": (("journal",),),
    "pause": (("an incident",),),
    "resume": ((),),
    "completion": (("bash",),),
}
ELSEWHERE = {
    "demo": "runs for a quarter of a minute; tests/ux/test_demo.py has it",
    "serve": "writes logs, until it is told to end",
    "extender": "the same",
    "fleet agreement": "the table of fleet plan",
    "shadow": "follows a live cluster for long; tests/lab/shadow has its table",
    "timeline backfill": "asks Prometheus; tests/integration/prometheus has it",
    "timeline record": "records until it is told to end",
    "timeline replay": "replays a timeline; tests/lab/timeline has it",
    "tune": "searches for minutes; tests/lab/timeline has it",
}
# Documents, and sentences of a command that does one thing, which are printed as they are.
NOT_LAID_OUT = {
    "policy schema",
    "policy show",
    "policy import",
    "policy init",
    "completion",
    "pause",
    "resume",
}
LOGGED = re.compile("(debug|info|warning): ")
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9]+)*m")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
TITLES = re.compile(r"  +[A-Z][A-Z0-9 ,%:]*")


def leaves(command: click.Command, context: click.Context, *path: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from leaves(inner, click.Context(inner, parent=context), *path, name)
    if path and (not isinstance(command, click.Group) or command.invoke_without_command):
        yield " ".join(path)


def test_every_command_is_tried_here_or_elsewhere() -> None:
    assert set(leaves(main, click.Context(main))) == {*TRIED, *ELSEWHERE}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the recorded cluster of long names, and the environment of a live one."""
    folder = tmp_path_factory.mktemp("terminals")
    with page_cluster() as hot, a_folder_and_environment(hot, folder) as environment:
        with_long_names(folder / "eks")
        for name, text in FILES.items():
            (folder / name).write_text(text)
        yield folder, {name: environment[name] for name in ("KUBECONFIG", "XDG_STATE_HOME")}


@pytest.mark.parametrize("command", TRIED)
def test_no_color_and_dumb_terminals_are_honoured_and_no_line_is_too_wide(
    place: tuple[Path, dict[str, str]], command: str
) -> None:
    folder, environment = place
    for given in TRIED[command]:
        words = (*command.split(), *given)
        code, plain = on_a_terminal(words, 80, {**environment, "TERM": "dumb"}, folder)
        assert code == 0, plain
        assert "\x1b" not in plain, words

        if given == TRIED[command][0]:
            _, without_colour = on_a_terminal(words, 80, {**environment, "NO_COLOR": "1"}, folder)
            assert not COLOUR.search(without_colour), words

        if command in NOT_LAID_OUT:
            continue
        lines = [line for line in plain.splitlines() if not LOGGED.match(line)]
        assert [line for line in lines if len(line) > 80] == []
        titles = [at for at, line in enumerate(lines) if TITLES.fullmatch(line)]
        assert all(after - before > 1 for before, after in itertools.pairwise(titles)), plain


def test_a_terminal_that_can_has_colours(place: tuple[Path, dict[str, str]]) -> None:
    folder, environment = place

    _, shown = on_a_terminal(("nodes", *FROM), 80, environment, folder)

    assert COLOUR.search(shown)
    assert "ip-10-123-214-37" in CONTROL.sub("", shown)
