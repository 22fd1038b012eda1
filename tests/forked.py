"""Processes of tests that are forks of one which has imported what they do: that takes longer than doing it.

There is one such process a worker, whichever test asks for it first, so that the modules are named here.
"""

from __future__ import annotations

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.fuzz.test_targets", "tests.lab.timeline.test_tuning"])
