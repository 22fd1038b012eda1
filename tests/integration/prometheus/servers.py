"""A real Prometheus, a small exporter it scrapes, and a server that answers as a broken one would."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import loopback
from tests.ports import free_port
from tests.waiting import HANG_SECONDS, eventually

MISSING = "prometheus is not installed (Debian: apt-get install -y prometheus)"


@contextlib.contextmanager
def answering(answer: Callable[[str, Mapping[str, str]], tuple[int, bytes]]) -> Iterator[str]:
    """A server on loopback; ``answer`` gets path and headers. Yields its host:port."""

    def answered(request: loopback.Request) -> loopback.Answer:
        status, body = answer(request.path, request.headers)
        return loopback.Answer(body, status)

    with loopback.answering(answered) as url:
        yield url.removeprefix("http://")


@dataclass
class Samples:
    """Samples of the past, written straight into Prometheus' storage."""

    families: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, labels: Mapping[str, str], points: Iterable[tuple[float, float]]) -> None:
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        self.families[name] += [f"{name}{{{text}}} {value!r} {moment:.3f}" for moment, value in points]

    def steady(
        self, name: str, labels: Mapping[str, str], value: float, end: float, seconds: float = 900
    ) -> None:
        """The same value every 30 seconds up to a moment."""
        self.add(name, labels, [(moment, value) for moment in moments(end, seconds)])

    def counter(
        self, name: str, labels: Mapping[str, str], rate: float, end: float, seconds: float = 900
    ) -> None:
        """A counter that grows by ``rate`` a second."""
        begin = end - seconds
        points = [(moment, 1000 + rate * (moment - begin)) for moment in moments(end, seconds)]
        self.add(name, labels, points)

    def write(self, path: Path) -> None:
        lines = []
        for name, samples in sorted(self.families.items()):
            lines += [f"# TYPE {name} unknown", *samples]
        path.write_text("\n".join([*lines, "# EOF", ""]))


def moments(end: float, seconds: float, step: float = 30.0) -> list[float]:
    return [end - seconds + step * number for number in range(int(seconds / step) + 1)]


@dataclass
class Prometheus:
    """A running Prometheus."""

    address: str

    def requests(self) -> int:
        """How many queries it has been asked."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=HANG_SECONDS) as response:
            lines = response.read().decode().splitlines()
        wanted = [
            line
            for line in lines
            if line.startswith("prometheus_http_requests_total{")
            and ('handler="/api/v1/query"' in line or 'handler="/api/v1/query_range"' in line)
        ]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in wanted)


@contextlib.contextmanager
def running(
    folder: Path, samples: Samples | None = None, scrape: str = "", *options: str
) -> Iterator[Prometheus]:
    """A Prometheus of its own, with samples of the past or something to scrape; stopped by its process."""
    binary, tool = shutil.which("prometheus"), shutil.which("promtool")
    if binary is None or tool is None:
        pytest.skip(MISSING)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    if samples is not None:
        samples.write(folder / "samples.om")
        command = [tool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "samples.om"), str(data)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    (folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s}}\n{scrape}")
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
                *options,
            ],
            stdout=log,
            stderr=log,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _await_ready(process, address, folder / "log")
            yield Prometheus(address)
        finally:
            process.terminate()
            process.wait(timeout=HANG_SECONDS)


def _await_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    def ready() -> bool:
        assert process.poll() is None, log.read_text()[-2000:]
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{address}/-/ready", timeout=HANG_SECONDS) as response,
        ):
            return bool(response.status == 200)
        return False

    eventually(ready, awaited="prometheus is ready")
