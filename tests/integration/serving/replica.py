"""``rebalancer serve --act`` with a lease that runs out sooner: python replica.py SECONDS OPTION…"""

from __future__ import annotations

import sys
from typing import Any

from rebalancer import service
from rebalancer.cli.program import main

if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    plain = service.ServiceOptions

    def shorter(**settings: Any) -> service.ServiceOptions:
        return plain(**settings, lease_seconds=seconds)

    service.ServiceOptions = shorter  # type: ignore[assignment,misc]
    main(["serve", *sys.argv[1:]])
