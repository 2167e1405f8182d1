"""Which pages to render: those that look empty, and those of a kind that gained by it before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from crawlprio.web.budgets import pattern_of
from crawlprio.web.scope import registered_domain
from crawlprio.web.shells import has_script, looks_made_by_script
from crawlprio.web.urls import host_of

_FIRST, _WORTH, _TRIED_AGAIN, _MAX_TRIALS = 2, 10, 50, 8
_MAX_KINDS, _MAX_SEEN = 50_000, 1_000_000


@dataclass(slots=True)
class _Kind:
    """What rendering brought to pages of one kind; `n_begun` counts those being rendered too."""

    n_begun: int = 0
    n_done: int = 0
    n_gained: int = 0
    n_passed: int = 0


class RenderHistory:
    """What rendering brought so far, by site and kind of URL; says what to render next.

    The kind of a URL is its pattern, as budgets have it, or else its folder. Pages that look made
    by script (`looks_made_by_script`) are a kind apart: the first two are rendered, up to 16 of a
    site as long as none gains. Of others with a script, one is tried, up to eight; the rest of its
    kind waits for what that brings. A kind goes on while at least one in ten gained; later, if it
    looks made by script or once gained, one page in 50 is tried again.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[bytes, bool], _Kind] = {}
        self._trials: Counter[str] = Counter()
        self._seen: set[int] = set()

    def wants(self, url: str, body: bytes) -> bool:
        """Return whether to render a page; `note` must be called with what came of it."""
        if not has_script(body):
            return False
        looks = looks_made_by_script(body)
        kind, host, n_first = self._kind(url, looks), host_of(url), _FIRST if looks else 1
        if kind.n_begun < n_first:
            wanted = self._trials[host] < n_first * _MAX_TRIALS
            self._trials[host] += wanted and not looks
        elif kind.n_gained * _WORTH >= kind.n_done:
            wanted = looks or kind.n_done > 0
        else:
            kind.n_passed += 1
            wanted = (looks or kind.n_gained > 0) and kind.n_passed % _TRIED_AGAIN == 0
        kind.n_begun += wanted
        return wanted

    def note(self, url: str, body: bytes, *, gained: bool) -> None:
        """Take note of what rendering a page brought; a failure brings nothing."""
        looks, host = looks_made_by_script(body), host_of(url)
        kind = self._kind(url, looks)
        kind.n_done += 1
        kind.n_gained += gained
        self._trials[host] = 0 if gained else self._trials[host] + looks

    def gains(self, url: str, links: Collection[str], n_before: int, n_now: int) -> bool:
        """Return whether rendering showed new links of the page's domain, or more text.

        `links` are those that neither the plain page nor the crawl knew; those that a page rendered
        before showed are not new. Text is more if it has twice as many characters, and 40 more.
        """
        domain = registered_domain(host_of(url))
        new = {hash(link) for link in links if registered_domain(host_of(link)) == domain}
        new -= self._seen
        if len(self._seen) > _MAX_SEEN:
            self._seen.clear()
        self._seen |= new
        return bool(new) or n_now >= 2 * n_before + 40

    def _kind(self, url: str, looks: bool) -> _Kind:
        name = pattern_of(url) or url.partition("?")[0].rpartition("/")[0].encode()
        if len(self._kinds) > _MAX_KINDS:
            self._kinds.clear()
        return self._kinds.setdefault((name, looks), _Kind())
