"""What a new user gets wrong with files: one line that names what, where and what to do, and nothing else."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Program, Refusal
from tests.integration.cli.dumps import Items, list_of

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
HOT = Path(__file__).parents[3] / "examples/hot-cluster"
Dump = Callable[[Items], Path]


@pytest.mark.parametrize("command", [("plan",), ("nodes",)])
def test_the_sound_cluster_the_others_are_made_from_is_planned(
    rebalancer_program: Program, dump: Dump, items: Items, command: tuple[str, ...]
) -> None:
    result = rebalancer_program(*command, "--from", dump(items))

    assert (result.exit_code, result.stderr) == (0, "")
    assert "n0" in result.stdout


@pytest.mark.parametrize(
    ("body", "place", "complaint"),
    [
        ("limts: {perRun: 3}\n", "3:1 limts: ", "did you mean limits?"),
        ("limits: {perRnu: 3}\n", "3:10 limits.perRnu: ", "did you mean perRun?"),
        ("limits: {perRun: many}\n", "3:18 limits.perRun: ", "valid integer"),
        ("limits:\n  perRun: 3\n  perRun: 4\n", "5:3 limits.perRun: ", "already set on line 4"),
        ("safety: {pause: yes}\n", "3:17 safety.pause: ", "true"),
        ("limits: {perRun: 3\n", "4:1", ""),
        ("load: {maxAge: 3}\n", "3:16 load.maxAge: ", "3s"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "nodes"])
def test_a_typo_in_a_policy_is_found_at_its_line_and_column(
    refusal: Refusal,
    dump: Dump,
    items: Items,
    tmp_path: Path,
    body: str,
    place: str,
    complaint: str,
    command: str,
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(HEAD + body)
    line = refusal(2, command, "--from", dump(items), "--policy", policy)

    assert line.startswith(f"{policy}:{place}")
    assert complaint in line


@pytest.mark.parametrize(
    ("missing", "what", "hint"),
    [
        ("nodemetrics", "no load figures", "kubectl get --raw /apis/metrics.k8s.io/v1beta1/nodes"),
        ("pods", "pods were not read (not in the dump)", "kubectl get pods -A -o json"),
        ("nodes", "nodes were not read (not in the dump)", "kubectl get nodes"),
    ],
)
def test_a_dump_that_lacks_what_every_plan_needs_says_how_to_add_it(
    refusal: Refusal, dump: Dump, items: Items, missing: str, what: str, hint: str
) -> None:
    del items[missing]
    path = dump(items)
    line = refusal(2, "plan", "--from", path)

    assert line.startswith(f"{path}: {what}")
    assert hint in line


def test_a_source_that_was_not_recorded_is_not_answered_with_another_one(
    refusal: Refusal, dump: Dump, items: Items, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{HEAD}load: {{sources: [{{prometheus: {{address: 'http://p:9090'}}}}]}}\n")
    line = refusal(2, "plan", "--from", dump(items), "--policy", policy)

    assert line.endswith("http://p:9090: not recorded (record the cluster with this policy)")


def test_kinds_that_are_missing_for_one_reason_are_one_warning(
    rebalancer_program: Program, dump: Dump, items: Items
) -> None:
    del items["csinodes"], items["storageclasses"]
    plan = json.loads(rebalancer_program("plan", "--from", dump(items), "-o", "json").stdout)

    (line,) = [text for text in plan["warnings"] if text.startswith("not read: ")]
    assert "csinodes, " in line
    assert "storageclasses" in line
    assert line.endswith(" (not in the dump)")


@pytest.mark.parametrize(
    ("sources", "named"), [("{requests: {}}", False), ("{metricsServer: {}}, {requests: {}}", True)]
)
def test_metrics_that_the_policy_does_not_ask_for_are_no_warning(
    rebalancer_program: Program, dump: Dump, items: Items, tmp_path: Path, sources: str, named: bool
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{HEAD}load: {{sources: [{sources}]}}\n")
    del items["nodemetrics"], items["csinodes"]
    result = rebalancer_program("plan", "--from", dump(items), "--policy", policy, "-o", "json")

    (line,) = [text for text in json.loads(result.stdout)["warnings"] if text.startswith("not read: ")]
    assert "csinodes" in line
    assert ("nodemetrics" in line) is named


def test_a_cluster_without_nodes_is_no_cluster(refusal: Refusal, dump: Dump, items: Items) -> None:
    path = dump(items | {"nodes": []})

    assert refusal(2, "plan", "--from", path) == f"{path}: holds no nodes (is this the cluster you meant?)"


def test_a_cluster_of_which_no_node_can_be_read_names_one(refusal: Refusal, dump: Dump, items: Items) -> None:
    path = dump(items | {"nodes": [{"metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "1 Gi"}}}]})

    assert "no node could be read: Node n0: status.allocatable.cpu: '1 Gi' is not" in refusal(
        2, "plan", "--from", path
    )


def test_an_empty_folder_and_a_path_that_is_not_there_are_named(refusal: Refusal, tmp_path: Path) -> None:
    assert refusal(2, "plan", "--from", tmp_path) == (
        f"{tmp_path}: no Kubernetes objects here (record a cluster with: rebalancer snapshot save PATH)"
    )
    missing = tmp_path / "missing"
    assert refusal(2, "plan", "--from", missing) == (
        f"{missing}: no such file or folder (name what snapshot save or kubectl get -A -o json wrote)"
    )


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("pods.json.gz", gzip.compress(list_of("pods", []), mtime=0)[:-6], "cannot unpack"),
        ("pods.json", b'{"kind": "PodList", "items": [{]}', "not JSON"),
        ("pods.json", b'{"kind": "PodList", "apiVersion": "v1"}', "missing required field `items`"),
        ("pods.json", b'{"kind": "Pods", "apiVersion": "v1", "metadata": {"name": "a"}}', "holds one Pods"),
        ("pods.json", b'{"kind": "PodList", "items": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not JSON"),
        ("state.json", b"{", "not a RunState"),
        ("scheduler-config.yaml", b"kind: Deployment", "should be KubeSchedulerConfiguration"),
        ("scheduler-config.yaml", b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_a_damaged_file_of_a_dump_is_named(
    refusal: Refusal, dump: Dump, items: Items, name: str, content: bytes, complaint: str
) -> None:
    folder = dump(items)
    (folder / name).write_bytes(content)
    line = refusal(2, "plan", "--from", folder)

    assert line.startswith(f"{folder / name}:")
    assert complaint in line


PODS = list_of("pods", [])
KUBECTL = json.dumps(
    {"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Pod"}] * 2, "kind": "List"}, indent=4
).encode()
LINES = (
    b'{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}},\n{"metadata":{"name":"b"}}]}\n'
)
FORBIDDEN = b'{"kind": "Status", "apiVersion": "v1", "message": "pods is forbidden: User \\"jane\\" cannot"}'
AS_JSON = " (write it with: kubectl get KIND -A -o json)"
FOREIGN = {
    "empty": (b"", f": is empty{AS_JSON}"),
    "blank": (b" \n\n", f": is empty{AS_JSON}"),
    "UTF-16": (PODS.decode().encode("utf-16"), f": is UTF-16 text{AS_JSON}"),
    "UTF-16, no mark": (PODS.decode().encode("utf-16-be"), f": is UTF-16 text{AS_JSON}"),
    "a table": (b"NAMESPACE  NAME   READY\nshop   web-1  1/1\n", ": is a table, as kubectl get prints"),
    "YAML": (b"apiVersion: v1\nitems:\n- kind: Pod\n", ": what has no kind is not a list"),
    "a login page": (b"<!DOCTYPE html>\n<html></html>", f": is an HTML page{AS_JSON}"),
    "kubectl's error": (
        b"Error from server (Forbidden): pods is forbidden\n",
        f": holds an error that kubectl printed: Error from server (Forbidden): pods is forbidden{AS_JSON}",
    ),
    "a refusal": (
        FORBIDDEN,
        f': holds the API server\'s refusal, not a list: pods is forbidden: User "jane" cannot{AS_JSON}',
    ),
    "a Table": (b'{"kind": "Table", "rows": []}', f": holds one Table, not a list{AS_JSON}"),
    "one object": (b'{"kind": "Pod", "metadata": {}}', f": holds one Pod, not a list{AS_JSON}"),
    "no kind": (b'{"a": 1}', ": what has no kind is not a list of Kubernetes objects"),
    "two documents": (PODS + b"\n" + PODS, ":2:1: not JSON as kubectl writes it: "),
    "two of kubectl's": (KUBECTL + b"\n" + KUBECTL, ": an item is not JSON: "),
    "two of snapshot save's": (LINES + LINES, ": an item is not JSON: "),
    "a typo": (b'{"kind": "PodList",\n "items": [}', ":2:12: not JSON as kubectl writes it: "),
    "an item that is not JSON": (LINES.replace(b'"b"', b"b"), ": an item is not JSON: "),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_list_of_objects_is_called_by_its_name(
    refusal: Refusal, dump: Dump, items: Items, name: str
) -> None:
    folder = dump(items)
    content, complaint = FOREIGN[name]
    (folder / "pods.json").write_bytes(content)
    line = refusal(2, "plan", "--from", folder)

    assert line.startswith(str(folder / "pods.json") + complaint)


def test_a_byte_order_mark_before_json_does_no_harm(
    rebalancer_program: Program, dump: Dump, items: Items
) -> None:
    folder = dump(items)
    path = folder / "pods.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert rebalancer_program("plan", "--from", folder).exit_code == 0


def test_a_file_that_is_named_after_pods_and_holds_none_says_what_it_holds(
    refusal: Refusal, dump: Dump, items: Items
) -> None:
    folder = dump(items)
    (folder / "pods.json").write_bytes(list_of("services", []))

    assert "pods were not read (pods.json holds a v1 ServiceList)" in refusal(2, "plan", "--from", folder)
    (folder / "pods.json").unlink()
    (folder / "pods.yaml").write_text("kind: Pod")
    assert "pods were not read (pods.yaml: holds one Pod, not a list" in refusal(2, "plan", "--from", folder)


def test_a_file_of_one_kind_alone_says_what_else_is_needed(
    refusal: Refusal, dump: Dump, items: Items
) -> None:
    folder = dump(items)

    assert "nodes were not read" in refusal(2, "plan", "--from", folder / "pods.json")


def test_a_list_of_something_else_holds_nothing_for_us(refusal: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "maps.json"
    path.write_text('{"kind": "ConfigMapList", "apiVersion": "v1", "items": []}')

    assert refusal(2, "plan", "--from", path).startswith(f"{path}: no Kubernetes objects here")


def test_a_load_watcher_answer_that_is_none_is_named(
    refusal: Refusal, dump: Dump, items: Items, tmp_path: Path
) -> None:
    policy, folder = tmp_path / "policy.yaml", dump(items)
    policy.write_text(HEAD + "load: {sources: [{loadWatcher: {address: 'http://lw.monitoring:2020'}}]}\n")

    assert "watcher.json: not recorded" in refusal(2, "plan", "--from", folder, "--policy", policy)
    (folder / "watcher.json").write_text('{"data": {}}')
    line = refusal(2, "plan", "--from", folder, "--policy", policy)
    assert "watcher.json: is not a load-watcher response" in line


@pytest.mark.parametrize("now", ["yesterday", "2026-13-01T00:00:00Z", "-5", "1e9", "٣"])
def test_a_wrong_clock_is_named_with_what_would_be_right(
    rebalancer_program: Program, dump: Dump, items: Items, now: str
) -> None:
    result = rebalancer_program("plan", "--from", dump(items), f"--now={now}")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "is not a time; write e.g. 2026-11-20T12:00:00Z" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_clock_far_from_the_figures_refuses_to_plan(refusal: Refusal, dump: Dump, items: Items) -> None:
    line = refusal(3, "plan", "--from", dump(items), "--now", "2030-01-01T00:00:00Z")

    assert "0 of 3 nodes have a fresh load figure" in line
    assert "load.minCoverage" in line


@pytest.mark.parametrize("option", ["--kubeconfig", "--context"])
def test_a_recorded_and_a_live_cluster_at_once_are_refused(
    refusal: Refusal, dump: Dump, items: Items, option: str
) -> None:
    line = refusal(2, "plan", "--from", dump(items), option, "x")

    assert line == f"--from reads a recorded cluster, {option} a live one (give one or the other)"


@pytest.mark.parametrize("option", ["--policy", "--scheduler-config"])
def test_a_file_of_an_option_that_is_not_there_is_named(
    refusal: Refusal, dump: Dump, items: Items, tmp_path: Path, option: str
) -> None:
    missing = tmp_path / "missing.yaml"

    assert refusal(2, "plan", "--from", dump(items), option, missing).startswith(f"{missing}: cannot be read")


def test_a_process_of_its_own_leaves_the_same_line_and_code(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "rebalancer", "plan", "--from", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_a_policy_is_read_from_standard_input_by_every_command() -> None:
    for command in ("validate", "show"):
        result = subprocess.run(
            [sys.executable, "-m", "rebalancer", "policy", command, "-"],
            input=HEAD + "metadata: {name: piped}\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

        assert (result.returncode, result.stderr, "piped" in result.stdout) == (0, "", True)


def test_json_logs_carry_the_same_line_as_an_object(rebalancer_program: Program, tmp_path: Path) -> None:
    result = rebalancer_program("--log-format", "json", "plan", "--from", tmp_path)

    assert json.loads(result.stderr)["message"].startswith(f"{tmp_path}: no Kubernetes objects here")


@pytest.mark.parametrize("moment", ["1e300", "-5", "1" + "0" * 400, '"yesterday"', "null", "[]"])
@pytest.mark.parametrize("command", ["info", "save"])
def test_notes_of_a_recording_that_cannot_be_are_named(
    refusal: Refusal, dump: Dump, items: Items, tmp_path: Path, moment: str, command: str
) -> None:
    folder = dump(items)
    (folder / "recording.json").write_text(f'{{"savedAt": {moment}}}')
    arguments = ("info", folder) if command == "info" else ("save", tmp_path / "saved", "--from", folder)

    assert f"{folder / 'recording.json'}: not what snapshot save writes" in refusal(2, "snapshot", *arguments)


def test_another_time_of_a_recording_is_tried_as_the_refusal_says(
    rebalancer_program: Program, refusal: Refusal, tmp_path: Path
) -> None:
    """A window of the policy can be tried on figures of a moment outside of it."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(HEAD)
    command = ("plan", "--from", HOT, "--now", "2026-11-22T10:00:00Z", "--policy", policy)

    line = refusal(3, *command)

    assert "the newest load figure is 4h14m58s old" in line
    assert "write load: {maxAge: 24h} into a copy of the policy" in line
    policy.write_text(HEAD + "load: {maxAge: 24h}\n")
    result = rebalancer_program(*command)
    assert result.exit_code == 0
    assert "2 of 2 hot nodes no longer hot" in result.stdout
