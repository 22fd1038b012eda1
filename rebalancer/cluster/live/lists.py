"""The one LIST loop: page after page, from the beginning again when the list expires, never without end.

The API server forgets a list a few minutes after its first page; the next page is then answered with 410,
and what was read so far no longer fits the rest:

    begins, page 1, page 2, 410 Gone -> begins, page 1, page 2, page 3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live.answers import Answer, RequestRejectedError
from rebalancer.cluster.live.raw_api import RawApi
from rebalancer.cluster.recordings.listing import Listing, ListingBuilder, collector_paused
from rebalancer.cluster.wire.json_items import Page, decode_head
from rebalancer.cluster.wire.protobuf_pods import MEDIA_TYPE, Pods, decode_answer
from rebalancer.errors import UnreachableError

PAGE_SIZE = 500
MAX_PAGES = 10_000  # of one LIST: more than any cluster has
EXPIRED = 410
_MAX_BEGINNINGS = 3


@dataclass(frozen=True, slots=True)
class ListBegins:
    """A LIST begins, or begins again: the pages before do not count."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as it came, or a part of a whole list, with its items still encoded."""

    head: Page
    body: bytes
    protobuf: Pods | None  # the pods of a protobuf answer; None for JSON
    last: bool = True  # nothing more of the list follows

    def add_to(self, builder: ListingBuilder) -> None:
        """Decode the items into a listing. Raises ValueError or RecursionError when they are not a list."""
        builder.resource_version = builder.resource_version or self.head.resource_version
        if self.protobuf is None:
            builder.add_list(self.body)
        else:
            builder.add_protobuf(self.protobuf)


@dataclass(frozen=True, slots=True)
class ListSource:
    """Where the pages of one LIST come from: ``fetch`` answers a GET with these query options."""

    kind: Kind
    what: str  # as messages name the request, e.g. "list pods"
    host: str
    fetch: Callable[[dict[str, Any]], Answer]
    page_size: int = PAGE_SIZE
    max_pages: int = MAX_PAGES

    def pages(self) -> Iterator[ListBegins | FetchedPage]:
        """All pages, consistent with each other from the last ``ListBegins`` on.

        Raises the errors of ``fetch``, and UnreachableError when the list keeps expiring, does not end or is
        none.
        """
        for _ in range(_MAX_BEGINNINGS):
            yield ListBegins()
            try:
                yield from self._pages_once()
            except RequestRejectedError as error:
                if error.status != EXPIRED:
                    raise
            else:
                return
        raise UnreachableError(
            f"{self.what}: expired {_MAX_BEGINNINGS} times between pages",
            where=self.host,
            hint="the cluster changes faster than it can be read",
        )

    def _pages_once(self) -> Iterator[FetchedPage]:
        token = ""
        seen: set[str] = set()
        while len(seen) < self.max_pages:
            page = self._page(token)
            yield page
            token = page.head.continue_token
            if not token:
                return
            if token in seen:
                raise self.unusable("the same page is offered again")
            seen.add(token)
        raise self.unusable(f"does not end after {self.max_pages} pages")

    def _page(self, token: str) -> FetchedPage:
        options: dict[str, Any] = {"limit": self.page_size} if self.kind.paged else {}
        if token:
            options["_continue"] = token
        answer = self.fetch(options)
        pods: Pods | None = None
        try:
            if answer.content_type.startswith(MEDIA_TYPE):
                head, pods = decode_answer(answer.body)
            else:
                head = decode_head(answer.body)
        except (ValueError, LookupError, RecursionError) as error:
            raise self.no_list(error) from error
        if head.kind != f"{self.kind.name}List":
            raise self.unusable(f"the answer is not a list of {self.kind.plural} but {head.kind[:60]!a}")
        return FetchedPage(head, answer.body, pods, last=not head.continue_token)

    def no_list(self, error: Exception) -> UnreachableError:
        """The error for a page that cannot be decoded."""
        return self.unusable(f"the answer is not a list: {str(error)[:200]}")

    def unusable(self, why: str) -> UnreachableError:
        """The error for answers that nobody can use."""
        return UnreachableError(
            f"{self.what}: {why}", where=self.host, hint="is this an API server, or a proxy before one?"
        )


def read_list(
    api: RawApi, kind: Kind, what: str, call: Any, *arguments: str, max_pages: int = MAX_PAGES, **options: Any
) -> Listing:
    """A whole list, by one of the client's calls. Raises RightsError or UnreachableError."""
    source = ListSource(
        kind,
        what,
        api.host,
        lambda paging: api.ask(what, call, *arguments, **options, **paging),
        max_pages=max_pages,
    )
    builder = ListingBuilder(kind)
    with collector_paused():
        for page in source.pages():
            if isinstance(page, ListBegins):
                builder = ListingBuilder(kind)
                continue
            try:
                page.add_to(builder)
            except (ValueError, RecursionError) as error:
                raise source.no_list(error) from error
    return builder.listing()
