"""The extender's port and its file: what is answered, refused, and taken over."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rebalancer.errors import InputError
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.service import endpoints
from rebalancer.service.endpoints import Health, answering
from rebalancer.service.policy_in_force import FileInForce
from rebalancer_extender import serving
from rebalancer_extender.serving import (
    MAX_BODY_BYTES,
    READY,
    Application,
    ExtenderOptions,
    Metrics,
    Refresher,
    TlsFiles,
    read_file,
)
from tests.builders import a_pod
from tests.extender.test_answers import PODS, RUNNING, Extender
from tests.rows import rows
from tests.unit.load.builders import a_percentage, a_watcher
from tests.waiting import HANG_SECONDS

BODY = json.dumps({"Pod": a_pod("p"), "Nodes": None, "NodeNames": list(RUNNING)}).encode()
FILE = "apiVersion: rebalancer/v1alpha1\nkind: ExtenderScores\nscores:\n- plugin: PLUGIN\n"


@pytest.mark.parametrize("text", ["root:x:0:0\nhunter2:x:1:1\n", "root:*:20228::\nhunter2:*:20228::\n"])
def test_nothing_is_quoted_of_a_file_that_holds_something_else(text: str) -> None:
    """A policy may name any file of the machine as one of scores."""
    with pytest.raises(InputError, match=r"scores.yaml:1:1: is not an ExtenderScores") as found:
        read_file(text, "scores.yaml")
    assert "root" not in str(found.value)
    assert "hunter2" not in str(found.value)


@contextmanager
def port(tls: ssl.SSLContext | None = None, *, ready: bool = True) -> Iterator[tuple[str, Metrics]]:
    health, metrics = Health(lambda: 0.0), Metrics()
    if ready:
        health.ready(READY)
    application = Application(Extender(PODS).answers, health, metrics)
    with answering("127.0.0.1", 0, application, tls) as url:
        yield url, metrics


def post(
    url: str, body: bytes = BODY, tls: ssl.SSLContext | None = None, length: int | None = None
) -> tuple[int, str]:
    headers = {} if length is None else {"Content-Length": str(length)}
    request = urllib.request.Request(url, data=body, method="POST", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS, context=tls) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_scheduler_is_answered_below_any_prefix_and_counted() -> None:
    with port() as (url, metrics):
        status, text = post(f"{url}/any/prefix/prioritize")
        assert (status, [item["Score"] for item in json.loads(text)]) == (200, [80, 84, 77])
        assert json.loads(post(f"{url}/filter")[1])["NodeNames"] == list(RUNNING)
        assert metrics.registry.get_sample_value(
            "rebalancer_extender_answer_seconds_count", {"verb": "prioritize"}
        )
        with urllib.request.urlopen(f"{url}/readyz", timeout=HANG_SECONDS) as response:
            assert response.read() == b"ok: answers\n"


def test_before_the_cluster_is_read_nothing_is_answered() -> None:
    with port(ready=False) as (url, _):
        assert post(f"{url}/prioritize") == (503, "starting\n")


def test_a_request_that_is_none_or_too_large_gets_one_line() -> None:
    with port() as (url, metrics):
        status, text = post(f"{url}/prioritize", b"{}")
        assert (status, text.count("\n")) == (400, 1)
        assert post(f"{url}/prioritize", b"", length=MAX_BODY_BYTES + 1)[0] == 400
        assert post(f"{url}/bind")[0] == 405
        assert metrics.registry.get_sample_value("rebalancer_extender_refused_total") == 2


@rows("length", ["0" * 20 + "99999999999", "0" * 5000 + "5", "-1", "+5", "1_0", "²", ""])
def test_a_length_is_a_short_number_whatever_zeros_it_begins_with(length: str) -> None:
    with port() as (url, _):
        assert asked(url, length).startswith(b"HTTP/1.0 400 ")


def test_a_body_that_does_not_come_is_refused_without_a_traceback_or_a_word_about_the_server(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints._Handler, "timeout", 0.05)
    with port() as (url, metrics):
        answer = asked(url, "100", b"{")
        assert metrics.registry.get_sample_value("rebalancer_extender_refused_total") == 1
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert b"the request did not come to its end: timed out\n" in answer
    assert b"Server: rebalancer\r\n" in answer
    assert b"Python" not in answer
    assert capfd.readouterr().err == ""


def asked(url: str, length: str, body: bytes = b"") -> bytes:
    """What a connection is answered that says a length, whatever follows."""
    host, _, number = url.rpartition("//")[2].partition(":")
    with socket.create_connection((host, int(number)), HANG_SECONDS) as client:
        client.sendall(f"POST /prioritize HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode() + body)
        return b"".join(iter(lambda: client.recv(4096), b""))


def test_it_answers_by_https_and_takes_over_a_renewed_certificate(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def renew() -> ssl.SSLContext:
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        name = ["-subj", "/CN=extender", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
        files = ["-nodes", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*command, *name, *files], check=True, capture_output=True)
        return ssl.create_default_context(cafile=str(certificate))

    first = renew()
    server = TlsFiles(ExtenderOptions(config=tmp_path, certificate=certificate, key=key))
    with port(server.context) as (url, _):
        assert url.startswith("https://")
        assert post(f"{url}/prioritize", tls=first)[0] == 200
        second = renew()
        server.renew()
        assert post(f"{url}/prioritize", tls=second)[0] == 200
        with pytest.raises(urllib.error.URLError):
            post(f"{url}/prioritize", tls=first)
    key.write_text("none")
    with pytest.raises(InputError, match="no certificate with its key"):
        TlsFiles(ExtenderOptions(config=tmp_path, certificate=certificate, key=key))


def test_a_load_watcher_that_answers_without_a_node_is_as_one_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "http://load-watcher:2020"
    path = tmp_path / "scores.yaml"
    path.write_text(FILE.replace("PLUGIN", f"TargetLoadPacking\n  args: {{watcherAddress: '{address}'}}"))
    asked = Extender(PODS)
    snapshot = asked.watched.counted.snapshot
    watched = SimpleNamespace(counted=asked.watched.counted, is_stale=False, renew=lambda: snapshot)
    file, metrics = FileInForce(path, read_file), Metrics()
    refresher = Refresher(cast("Any", None), file, asked.answers, cast("Any", watched))
    percentages = {name: [a_percentage("CPU", 40)] for name in RUNNING}
    answers = iter([a_watcher({}), a_watcher(percentages), a_watcher({})])
    monkeypatch.setattr(serving, "read_figures", lambda *_: SchedulerView(watchers={address: next(answers)}))

    found = []
    for _ in range(3):
        refresher._figures_due = -float("inf")
        refresher.tend(metrics)
        (score,) = asked.answers.in_force.scores
        found.append((score.read_at, asked.prioritize()["node1"] > 0))

    (first, some), (second, others), (third, last) = found
    assert (first, some, others, last) == (-float("inf"), False, True, True)
    assert second == third
    assert asked.neutral_answers("TargetLoadPacking") == 1


@rows(
    "text, why",
    [
        (FILE.replace("PLUGIN", "PodCapacity"), "scores.yaml:4:11 scores[0].plugin: PodCapacity is unknown"),
        (FILE.replace("PLUGIN", "ImageLocality"), "what the scheduler alone knows"),
        (FILE.replace("PLUGIN", "DefaultBinder"), "it is not modelled"),
        (FILE.replace("PLUGIN", "PodTopologySpread"), "an extender cannot compute PodTopologySpread"),
        (FILE.replace("PLUGIN", "antigravity:Score"), "entry point of the group rebalancer.plugins"),
        (
            FILE.replace("PLUGIN", "PodCapacityOfNode, args: {a: 1}").replace("- ", "- {") + "}",
            "no arguments",
        ),
        (FILE.replace("PLUGIN", "PodCapacityOfNode") * 2, ""),
        (FILE + "- plugin: PodCapacityOfNode\n", "is there twice"),
        (FILE.replace("PLUGIN", "TargetLoadPacking\n  args: {watcherAdress: x}"), "watcherAddress"),
        (FILE.replace("PLUGIN", "TargetLoadPacking\n  args: {watcherAddress: 'file:///etc'}"), "http://"),
        (FILE.replace("PLUGIN", "Peaks\n  args: {WatcherAddress: 'http://a/../b'}"), "leads out of"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        read_file(text.replace("PLUGIN", "PodCapacityOfNode"), "scores.yaml")
    assert why in str(refused.value)
    assert str(refused.value).startswith("scores.yaml")


def test_a_changed_file_is_taken_over_and_a_bad_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.yaml"
    path.write_text(FILE.replace("PLUGIN", "PodCapacityOfNode"))
    file = FileInForce(path, read_file)
    path.write_text(FILE.replace("PLUGIN", "Nonsense"))
    assert not file.refresh()
    assert "Nonsense is unknown" in file.refused
    assert file.loaded.scores[0].name == "PodCapacityOfNode"
    path.write_text(FILE.replace("PLUGIN", "NodeResourcesBalancedAllocation"))
    assert file.refresh()
    assert (file.refused, file.loaded.scores[0].name) == ("", "NodeResourcesBalancedAllocation")


def test_the_page_of_extenders_has_a_row_for_each_of_their_metrics() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extender.md").read_text()
    samples = {
        family.name + ("_total" * (family.type == "counter")) for family in Metrics().registry.collect()
    }
    assert samples == set(re.findall(r"^\| `(rebalancer_extender_\w+)` \|", page, re.MULTILINE))
