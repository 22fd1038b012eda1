"""``python -m tools.pages`` in a checkout: writes everything that is generated from code."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.pages import renewed

if __name__ == "__main__":
    for path, text in renewed(Path.cwd()).items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            sys.stdout.write(f"renewed {path}\n")
