"""``rebalancer serve --act`` with a lease that runs out sooner: python replica.py SECONDS OPTION…"""

from __future__ import annotations

import dataclasses
import sys

from rebalancer import service
from rebalancer.cli.main import main

if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    plain = service.Service

    def shorter(options: object, settings: service.ServiceOptions) -> service.Service:
        return plain(options, dataclasses.replace(settings, lease_seconds=seconds))  # type: ignore[arg-type]

    service.Service = shorter  # type: ignore[assignment,misc]
    main(["serve", *sys.argv[1:]])
