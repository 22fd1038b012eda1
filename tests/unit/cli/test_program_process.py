"""The program as a process of its own: what it imports, and pipes that close."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer.cluster.dumps.writer import save
from rebalancer.errors import ExitCode
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows
from tests.waiting import HANG_SECONDS

HEAVY = ("numpy", "pandas", "kubernetes", "rich", "pydantic", "yaml", "prometheus_client", "urllib3")

NETWORK_AND_TABLES = (
    *(
        "kubernetes",
        "urllib3",
        "requests",
        "http.client",
        "asyncio",
        "tenacity",
        "pandas",
        "prometheus_client",
    ),
    *(
        "rebalancer.cluster.live.client",
        "rebalancer.execution",
        "rebalancer_demo",
    ),
)

COMMANDS_THAT_PLAN = [["plan"], ["plan", "-o", "json"], ["nodes"], ["explain", "node/a"]]
POLICIES = Path(__file__).parents[3] / "policies"


def python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        **options,
    )


def test_help_imports_nothing_heavy_and_checking_policies_nothing_that_computes() -> None:
    policies = [str(path) for path in sorted(POLICIES.glob("*.yaml"))]
    assert policies
    code = f"""
import sys
from rebalancer.cli.program import main
def called(*arguments):
    try:
        main([*arguments])
    except SystemExit as end:
        assert end.code == 0, (arguments, end.code)
for arguments in (["--help"], ["plan", "--help"], ["policy", "--help"]):
    called(*arguments)
print("HEAVY", sorted(set(sys.modules) & set({HEAVY})))
for policy in {policies}:
    called("policy", "validate", policy)
heavy = {{"numpy", "pandas", "kubernetes", "rich", "prometheus_client", "urllib3", "rebalancer.scheduling"}}
print("HEAVY", sorted(set(sys.modules) & heavy))
"""
    result = python(code)

    assert result.returncode == 0, result.stderr
    heavy = [line for line in result.stdout.splitlines() if line.startswith("HEAVY")]
    assert heavy == ["HEAVY []", "HEAVY []"]


def test_a_recorded_cluster_is_planned_for_without_a_network_client(tmp_path: Path) -> None:
    snapshot = a_snapshot(nodes=[a_node("n0")], pods=[a_pod("p", node="n0")])
    save(snapshot.recording, tmp_path / "recorded", 0.0)
    (tmp_path / "policy.yaml").write_text(
        "{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy, load: {sources: [{requests: {}}]}}"
    )
    code = f"""
import sys
from rebalancer.cli.program import main
for command in ("plan", "nodes"):
    try:
        main([command, "--from", "recorded", "--policy", "policy.yaml", "-o", "json"])
    except SystemExit as end:
        assert end.code == 0, (command, end.code)
heavy = {sorted(NETWORK_AND_TABLES)}
print("\\nHEAVY", sorted(set(sys.modules) & set(heavy)))
"""
    result = python(code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(POLICIES.parent)})

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "HEAVY []"


def test_the_first_request_waits_for_nothing_that_only_plans(tmp_path: Path) -> None:
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(json.dumps(kubeconfig))
    code = f"""
import os, sys
from rebalancer.cli.program import main
from rebalancer.cluster.live import RawApi
def asked(api, kind):
    heavy = {{"numpy", "pandas", "kubernetes", "rich", "rebalancer.scheduling"}}
    print("HEAVY", kind.plural, sorted(set(sys.modules) & heavy), flush=True)
    os._exit(0)
RawApi.ask_ahead = asked
for command in {COMMANDS_THAT_PLAN}:
    process = os.fork()
    if not process:
        main([*command, "--kubeconfig", "config"])
    assert os.waitpid(process, 0)[1] == 0, command
"""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    result = python(code, cwd=tmp_path, env={**environment, "PYTHONPATH": str(POLICIES.parent)})

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["HEAVY nodes []"] * len(COMMANDS_THAT_PLAN)


def test_help_lists_every_exit_code_with_its_meaning() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "rebalancer", "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    said = " ".join(result.stdout.split())

    assert result.stderr == ""
    assert said.startswith("Usage: rebalancer [OPTIONS] COMMAND")
    for code in ExitCode:
        assert f"{int(code)} {code.meaning}" in said


@rows("arguments", [["policy", "schema"], ["--help"], ["--version"]])
def test_a_reader_that_has_seen_enough_is_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "rebalancer", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)

    assert (result.returncode, result.stderr) == (0, b"")


def test_a_table_for_a_reader_that_has_seen_enough_is_no_error_either() -> None:
    code = """
from tests.unit.reporting.builders import a_plan
import rebalancer.run.plan
rebalancer.run.plan.make_plan = lambda options: a_plan()
from rebalancer.cli.program import main
main(["plan"])
"""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(writing)

    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
def test_a_full_disk_is_one_line_and_no_defect_of_ours() -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "rebalancer", "policy", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )

    assert result.returncode == ExitCode.BAD_INPUT
    assert result.stderr == b"error: cannot write the result: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal as Unix has it")
def test_a_terminal_that_was_closed_is_no_defect_of_ours() -> None:
    master, terminal = os.openpty()
    os.close(master)
    with os.fdopen(terminal, "wb") as closed:
        result = subprocess.run(
            [sys.executable, "-m", "rebalancer", "policy", "schema"],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )

    assert (result.returncode, result.stderr) == (ExitCode.DONE, b"")


def test_a_terminal_without_unicode_is_no_error() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(
        [sys.executable, "-m", "rebalancer", "policy", "validate", "/no/süch/file"],
        capture_output=True,
        check=False,
        timeout=60,
        env=environment,
    )

    assert result.returncode == ExitCode.BAD_INPUT
    assert result.stderr.isascii()
    assert b"error: /no/s" in result.stderr


@pytest.mark.parametrize(
    ("form", "encoding"),
    [("json", "ascii"), ("yaml", "latin-1"), ("jsonpath={.policy}", "ascii"), ("html", "latin-1")],
)
def test_documents_are_in_utf_8_whatever_the_locale_is(form: str, encoding: str, tmp_path: Path) -> None:
    policy, recorded, name = tmp_path / "policy.yaml", tmp_path / "recorded", "für alle → ✓"
    policy.write_text(
        f"{{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy, metadata: {{name: {name}}},"
        " load: {sources: [{requests: {}}]}}",
        "utf-8",
    )
    save(a_snapshot(nodes=[a_node("a")]).recording, recorded, 0.0)
    result = subprocess.run(
        [sys.executable, "-m", "rebalancer", "plan", "--from", recorded, "--policy", policy, "-o", form],
        capture_output=True,
        check=False,
        timeout=HANG_SECONDS,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )

    assert (result.returncode, result.stderr) == (0, b"")
    assert name in result.stdout.decode()
    assert form != "json" or json.loads(result.stdout)["policy"] == name


def in_a_shell(arguments: str, redirections: str) -> subprocess.CompletedProcess[str]:
    command = f'exec "{sys.executable}" -m rebalancer {arguments} {redirections}'
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)


@rows(
    "redirections, message",
    [
        ("<&-", "error: standard input is closed (redirect it to /dev/null)\n"),
        (">&-", "error: standard output is closed (redirect it to /dev/null)\n"),
        ("2>&-", ""),
        ("<&- >&- 2>&-", ""),
    ],
)
def test_a_stream_that_is_closed_ends_the_program_before_a_file_takes_its_place(
    redirections: str, message: str
) -> None:
    result = in_a_shell("policy schema", redirections)

    assert (result.returncode, result.stderr) == (ExitCode.BAD_INPUT, message)
    assert result.stdout == ""


def test_what_is_left_unwritten_never_changes_the_exit_code() -> None:
    code = """
import sys
from rebalancer.cli.invocation import Session, guarded
from rebalancer.errors import SafetyError
def fail():
    sys.stdout.write("half a plan")
    raise SafetyError("a brake")
sys.exit(guarded(fail, Session()))
"""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, "-c", code],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    finally:
        os.close(writing)

    assert (result.returncode, result.stderr) == (ExitCode.STOPPED, b"error: a brake\n")


def test_a_signal_while_the_program_is_imported_ends_it_with_the_code_of_an_interruption() -> None:
    """In a container too, where the kernel drops SIGTERM for a first process that has no handler."""
    program = """
import os, signal, sys
class Asked:
    def find_spec(self, name, *_):
        if name == "rebalancer.cli.invocation":
            os.kill(os.getpid(), signal.SIGTERM)
from rebalancer.__main__ import start
sys.meta_path.insert(0, Asked())
sys.argv = ["rebalancer", "--version"]
start()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (ExitCode.INTERRUPTED, b"", b"")
