"""A page as a browser would read it, and a name that tries to become a part of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e{{ 7 * 7 }}"


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    def check_harmless(self) -> None:
        """Nothing of a hostile name became an element or an attribute, and nothing is loaded."""
        assert not {"img", "iframe", "object", "link"} & {tag for tag, _ in self.elements}
        assert all(item.get("type") == "application/zlib" for tag, item in self.elements if tag == "script")
        names = {name for _, attributes in self.elements for name in attributes}
        assert not any(name.startswith("on") for name in names)
        assert "src" not in names
        links = [item["href"] for _, item in self.elements if "href" in item]
        assert all(re.fullmatch(r"#[a-z]+", link or "") for link in links), "only parts of the page itself"
        policy = next(item["content"] for tag, item in self.elements if item.get("http-equiv"))
        assert policy == "default-src 'none'; style-src 'unsafe-inline'"
