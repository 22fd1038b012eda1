"""One live plan in this process, by its stages: what ``bench.live_plan`` starts for each of its plans.

    python -m bench.live_plan_stages BEGAN KUBECONFIG POLICY

Nothing but the standard library is imported before the program, so that its own imports count as its start.
The first byte goes out with the first connection; where reading ends, ``LiveReader.read`` says. BEGAN are the
Unix seconds at which the process was started.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
from typing import Any


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def a_plan(began: float, kubeconfig: str, policy: str) -> dict[str, float]:
    """Seconds since ``began``, and processor seconds, until each stage was over; the peak memory in bytes."""
    found: dict[str, float] = {}

    def noted(event: str, _: object) -> None:
        if event == "socket.connect" and "first" not in found:
            found["first"], found["firstCpu"] = time.time() - began, cpu_seconds()

    sys.addaudithook(noted)
    from rebalancer.cli.program import main as program  # noqa: PLC0415 - counted as the program's own start

    def watched(*arguments: Any) -> Any:
        read = asked(*arguments)
        from rebalancer.cluster.live.reader import LiveReader  # noqa: PLC0415 - the program imports it now

        whole = LiveReader.read

        def timed(self: LiveReader, *given: Any, **more: Any) -> Any:
            recording = whole(self, *given, **more)
            found["read"], found["readCpu"] = time.time() - began, cpu_seconds()
            return recording

        LiveReader.read = timed  # type: ignore[method-assign]
        return read

    from rebalancer.run import plan  # noqa: PLC0415 - the program imports it before it asks

    asked = plan.ask_ahead  # type: ignore[attr-defined]
    plan.ask_ahead = watched  # type: ignore[assignment, attr-defined]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        program(["plan", "--policy", policy, "--kubeconfig", kubeconfig, "-o", "json"])
    found["plan"], found["planCpu"] = time.time() - began, cpu_seconds()
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return found


if __name__ == "__main__":
    print(json.dumps(a_plan(float(sys.argv[1]), sys.argv[2], sys.argv[3])))
