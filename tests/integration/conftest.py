"""What several folders of these tests count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rebalancer.cluster.live import RawApi


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind was listed; a request for the present version alone does not count."""
    found: Counter[str] = Counter()
    list_page = RawApi.list_page

    def counted(api: RawApi, kind: Any, query: Any = None, headers: Any = None) -> Any:
        if (query or {}).get("limit") != 1:
            found[kind.plural] += 1
        return list_page(api, kind, query, headers)

    monkeypatch.setattr(RawApi, "list_page", counted)
    return found
