"""Reading a cluster from an API server, against curl fetching the same bytes: what `plan` waits for.

    python -m bench.cluster --nodes 700 --pods 20000 --kubeconfig F
    python -m bench.reading --kubeconfig F [--repeat 5]

The reader's own requests are recorded once and then made again by curl: the same pages, in the same encoding,
one after another over one connection, written nowhere. Both are measured in turn, and the least counts.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from rebalancer.cluster.live import RawApi, open_api
from rebalancer.cluster.live.login import connect
from rebalancer.cluster.live.reader import LiveReader


@dataclass(frozen=True, slots=True)
class Request:
    """A GET as it was made."""

    url: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Cost:
    """What reading took."""

    wall_seconds: float
    cpu_seconds: float


def an_api(kubeconfig: Path) -> RawApi:
    return open_api(kubeconfig)


def read(api: RawApi) -> int:
    """All kinds; how many objects."""
    return sum(len(listing) for listing in LiveReader(api, time.time).read().listings.values())


def requests_of(api: RawApi) -> list[Request]:
    """The requests that the reader makes."""
    found: list[Request] = []
    pool = api.client.login.pool
    request: Callable[..., Any] = pool.request

    def recorded(method: str, url: str, **options: Any) -> Any:
        found.append(Request(with_query(url, options.get("fields")), dict(options.get("headers") or {})))
        return request(method, url, **options)

    pool.request = recorded
    try:
        read(api)
    finally:
        pool.request = request
    return found


def with_query(url: str, fields: object) -> str:
    """The URL with its query, which the client hands over apart from it."""
    return f"{url}?{urlencode(fields)}" if fields else url  # type: ignore[arg-type]


def curl_config(requests: Sequence[Request], kubeconfig: Path) -> str:
    """The requests as a file for curl -K."""
    settings = connect(kubeconfig).configuration
    files = (("cacert", settings.ssl_ca_cert), ("cert", settings.cert_file), ("key", settings.key_file))
    common = [f"{name} = {quoted(value)}" for name, value in files if value]
    common += [] if settings.verify_ssl else ["insecure"]
    common += [
        "silent",
        "show-error",
        'output = "/dev/null"',
        r'write-out = "%{http_code} %{size_download}\n"',
    ]
    blocks = [
        "\n".join(
            [
                f"url = {quoted(item.url)}",
                *(f"header = {quoted(f'{name}: {value}')}" for name, value in item.headers.items()),
                *common,
            ]
        )
        for item in requests
    ]
    return "\nnext\n".join(blocks) + "\n"


def quoted(text: str) -> str:
    """A value in a file for curl."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def fetch(config: Path) -> tuple[Cost, int]:
    """curl making all the requests; how many bytes came."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(["curl", "-K", str(config)], capture_output=True, text=True, check=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers = [line.split() for line in done.stdout.splitlines()]
    expired = sum(status == "410" for status, _ in answers)
    if expired:
        raise SystemExit(f"{expired} pages expired: the server compacted meanwhile; run it again")
    return Cost(wall, _cpu(after) - _cpu(before)), sum(int(size) for _, size in answers)


def read_cost(api: RawApi) -> tuple[Cost, int]:
    """The reader; how many objects."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    count = read(api)
    wall = time.perf_counter() - began
    return Cost(wall, _cpu(resource.getrusage(resource.RUSAGE_SELF)) - _cpu(before)), count


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def least(costs: Sequence[Cost]) -> Cost:
    return Cost(min(cost.wall_seconds for cost in costs), min(cost.cpu_seconds for cost in costs))


@click.command()
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--repeat", type=click.IntRange(1, 100), default=5, show_default=True, help="The least counts.")
def main(kubeconfig: Path, repeat: int) -> None:
    """Measure reading a cluster against curl."""
    if shutil.which("curl") is None:
        raise SystemExit("needs curl")
    readers: list[Cost] = []
    curls: list[Cost] = []
    objects = size = 0
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "curl"
        for _ in range(repeat):
            api = an_api(kubeconfig)
            requests = requests_of(api)  # afresh: the tokens of pages expire
            config.touch(mode=0o600)
            config.write_text(curl_config(requests, kubeconfig))
            cost, size = fetch(config)
            curls.append(cost)
            cost, objects = read_cost(an_api(kubeconfig))
            readers.append(cost)
    reader, curl = least(readers), least(curls)
    encodings = sorted({item.headers.get("Accept", "") for item in requests})
    print(f"{objects} objects, {len(requests)} requests, {size / 1e6:.1f} MB on the wire")
    print(f"{'; '.join(encodings)}")
    print("           wall s    cpu s")
    print(f"curl     {curl.wall_seconds:8.3f} {curl.cpu_seconds:8.3f}")
    print(f"reader   {reader.wall_seconds:8.3f} {reader.cpu_seconds:8.3f}")
    print(f"ratio    {reader.wall_seconds / curl.wall_seconds:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
