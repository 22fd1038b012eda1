"""The kubeconfig that points kubectl and clients at a sandbox."""

from __future__ import annotations

from pathlib import Path

import yaml

TOKEN = "sandbox"  # noqa: S105 - everyone may know it: the server listens on loopback only


def write_kubeconfig(path: Path, url: str, token: str) -> Path:
    """Write a kubeconfig, readable by its owner only, with one context; returns its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": {"server": url}}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    path.chmod(0o600)
    return path
