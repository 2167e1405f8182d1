"""The web of which a crawl has a share: the links of its pages, fetched or not, by one rule.

The share that walks prove is one of a single web: the pages that the rules of the crawl reach from
its seeds, by the links that they would follow from each page, wherever it is met. So a link counts
if no rule refuses it: nofollow, scope (as wide as all seeds make it, once each has answered), file
types, traps, depth, budgets. What cannot be known is not assumed: a link that depth or a budget may
or may not refuse leads nowhere, and a page whose links are not known (it failed, or its nofollow
links were not kept) is fetched for the walks. Walks that get no further count against the crawl.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from crawlprio.errors import StoreError
from crawlprio.graph.pages import MAX_DEPTH, NO_PAGE, Visit
from crawlprio.measure.stored_crawl import BUDGETS, CERTIFICATE_KEY, StoredCrawl
from crawlprio.ranking.walks import CONFIDENCE, Walks
from crawlprio.safe_files import open_file, replacing
from crawlprio.store import Store
from crawlprio.store.outcomes import REFUSED, ROBOTS, failure_of
from crawlprio.web.anchors import MAX_ANCHOR_LENGTH
from crawlprio.web.budgets import REFUSED_TEXT
from crawlprio.web.scope import Scope
from crawlprio.web.urls import MAX_URL_LENGTH, host_of, normalise_url

LEAST_CHANCE = 0.01
"""Probability below which pages that walks came to are taken for unlike the fetched ones."""

_GONE = ("HTTP 404", "HTTP 410")
_MOST_REDIRECTS = 20
_MOST_OUTSIDE = REFUSED_TEXT - MAX_URL_LENGTH - MAX_ANCHOR_LENGTH
"""Characters of refused links up to which a visit has all of them."""

_BUDGETS = (*BUDGETS, "claim-budget", "sites")
"""Rules that limit how much of a site or web a crawl takes in."""

DRAW_KEY = "certificate_draw"
"""Key in `meta`: the seed of the walks, and the number of visits at which it was drawn."""


class WalkAnswer(NamedTuple):
    """What a page that walks came to answered: its links, those with nofollow apart."""

    url: str
    links: list[str]
    nofollow: list[str]
    status: int
    content_hash: int

    @property
    def is_redirect(self) -> bool:
        return 300 <= self.status < 400 and bool(self.links)


class WalkEvidence:
    """The answers of the pages that walks came to, in a file of JSON lines, one for each page.

    The first line names the store. What a crash cut short is left out.

    Raises `StoreError` if the file cannot be read or written.
    """

    def __init__(self, path: Path, created: str) -> None:
        kept = _lines_of(path)
        self.found: list[WalkAnswer] = []
        if kept[:1] == [{"store": created}]:
            self.found = [WalkAnswer(**line) for line in kept[1:]]
        try:
            with replacing(path, encoding="utf-8") as self._file:
                self._write({"store": created})
                for answer in self.found:
                    self._write(answer._asdict())
            self._file = open_file(path, "a", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{path} cannot be written ({error.strerror}).") from None

    def add(self, answer: WalkAnswer) -> None:
        """Keep the answer of a page."""
        self.found.append(answer)
        self._write(answer._asdict())
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")


def _lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file up to the first that is damaged; none if there is no file."""
    lines: list[dict[str, Any]] = []
    try:
        with open_file(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for line in text.splitlines():
            found = json.loads(line)
            if lines and not _is_answer(found):
                break
            lines.append(found)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        pass
    return lines


def _is_answer(found: Any) -> bool:
    """Return whether a line is an `WalkAnswer`; the file may be somebody else's."""
    if not isinstance(found, dict) or found.keys() != set(WalkAnswer._fields):
        return False
    url, links, nofollow, *numbers = (found[name] for name in WalkAnswer._fields)
    return (
        isinstance(links, list)
        and isinstance(nofollow, list)
        and all(isinstance(each, str) and normalise_url(each) for each in (url, *links, *nofollow))
        and all(isinstance(number, int) and abs(number) < 2**63 for number in numbers)
    )


class WalkVerification:
    """A crawl that walks are to judge: the links of its web, of which it fetched a part.

    `path`: its store, which is read when the object is made, and again by `walks`. `scope` and
    `depth_limit`: its rules; the scope is widened by the seeds that redirect. `identity_of`:
    decides when two URLs are the same page. `obeys_nofollow`: whether it refuses nofollow links.
    `answers`: what walks found so far. Raises `StoreError` if it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        scope: Scope,
        depth_limit: int,
        identity_of: Callable[[str], str],
        *,
        obeys_nofollow: bool = True,
        answers: Iterable[WalkAnswer] = (),
    ) -> None:
        self._path, self._scope, self._depth_limit = path, scope, depth_limit
        self._identity_of = identity_of
        with Store.open(path, readonly=True) as store, store.snapshot():
            self._pages = store.load_pages()
            self.crawl = StoredCrawl.read(store)
            for url in store.redirected_seeds():
                scope.add_seed(url)
            is_counted = bool(store.get_meta("ended_at"))
            refused = store.refusals()
        self._has_nofollow = obeys_nofollow and ("nofollow" in refused or not is_counted)
        self._is_bounded = not is_counted or not refused.keys().isdisjoint(_BUDGETS)
        self.nowhere = len(self._pages)
        self._others: dict[str, int] = {}
        self._urls: list[str] = []
        self._depths: list[int] = []
        self._counts = Traits()
        self._unlike: dict[int, str] = {}
        self._compared: set[int] = set()
        self.answers: dict[str, WalkAnswer] = {}
        for answer in answers:
            self.add(answer)

    def page(self, url: str, depth: int = MAX_DEPTH) -> int:
        """Return the id of a page: that of the crawl, or for another page, one beyond `nowhere`.

        `depth` is how many links it is from a seed at most, by the way on which it was met.
        """
        identity = self._identity_of(url)
        page = self._pages.find(identity)
        if page != NO_PAGE:
            return page
        place = self._others.setdefault(identity, len(self._others))
        if place == len(self._urls):
            self._urls.append(url)
            self._depths.append(depth)
        self._depths[place] = min(self._depths[place], depth)
        return self.nowhere + 1 + place

    def url(self, page: int) -> str:
        known = page < self.nowhere
        return self._pages.url(page) if known else self._urls[page - self.nowhere - 1]

    def _depth(self, page: int) -> int:
        known = page < self.nowhere
        return int(self._pages.depths[page] if known else self._depths[page - self.nowhere - 1])

    def add(self, answer: WalkAnswer) -> None:
        """Record a page's response, and compare it with the crawl's own response for that page."""
        page = self.page(answer.url)
        self.answers[self._identity_of(answer.url)] = answer
        links = self._got_links(page)
        if links:
            found = set(map(self.page, [*answer.links, *answer.nofollow]))
            self._compare(page, 2 * len(found.intersection(links)) >= len(links))

    def refused(self, page: int) -> None:
        """Record that a page was refused to the walks, whatever it was to the crawl."""
        if self._got_links(page):
            self._compare(page, is_alike=False)

    def _compare(self, page: int, is_alike: bool) -> None:
        self._compared.add(page)
        if not is_alike:
            self._unlike[page] = self.url(page)

    def _got_links(self, page: int) -> list[int]:
        """Return the links of a page as the crawl fetched it; none if it did not fetch it."""
        if page >= self.nowhere or not self.crawl.is_got[page]:
            return []
        fetches, row = self.crawl.fetches, int(self.crawl.fetches.at[page])
        found: list[int] = fetches.links[fetches.ends[row] : fetches.ends[row + 1]].tolist()
        return found

    def control(self, page: int, random: Random) -> int:
        """Return a page of the same site that the crawl fetched and that has links, or `NO_PAGE`.

        One is due with the first page of a site that walks come to, and with every tenth.
        """
        host = host_of(self.url(page))
        if self._got_links(page) or not self._pages.knows_host(host):
            return NO_PAGE
        n_walked = sum(host_of(answer.url) == host for answer in self._walked())
        if n_walked % 10 != 1:
            return NO_PAGE
        fetches = self.crawl.fetches
        pages = fetches.order[fetches.degrees > 0]
        of_site = self.crawl.sites[pages] == self._pages.site(host)
        pages = pages[self.crawl.is_got[pages] & of_site]
        left = [int(page) for page in pages if int(page) not in self._compared]
        return random.choice(left) if left else NO_PAGE

    def _walked(self) -> list[WalkAnswer]:
        """Return what pages answered that the crawl did not get."""
        return [
            answer
            for identity, answer in self.answers.items()
            if (page := self._pages.find(identity)) == NO_PAGE or not self.crawl.is_got[page]
        ]

    def waiting_seeds(self) -> list[int]:
        """Return the seeds whose destination neither the crawl nor a walk knows."""
        waits = [page for page in self.crawl.seeds if not self.crawl.is_got[page]]
        gone = {page for page, cause in self.crawl.failures.items() if cause in _GONE}
        return [page for page in waits if page not in gone and self._arrived(page) is None]

    def _arrived(self, seed: int) -> WalkAnswer | None:
        """Return the answer at the end of the redirects of a seed, if it is known."""
        url = self.url(seed)
        for _ in range(_MOST_REDIRECTS):
            answer = self.answers.get(self._identity_of(url))
            if answer is None or not answer.is_redirect:
                return answer
            url = answer.links[0]
        return None

    def walks(self, n_walks: int, seed: str) -> Walks:
        """Return the walks of a draw, once all seeds have answered or failed.

        Raises `ValueError` if every page that can be reached is fetched. Raises `ConfigError` if
        `allow` or `deny` takes too long.
        """
        for page in self.crawl.seeds:
            arrived = self._arrived(page)
            if arrived is not None and 200 <= arrived.status < 300:
                self._scope.add_seed(arrived.url)
        with Store.open(self._path, readonly=True) as store, store.snapshot():
            known = StoredCrawl.read(store, self._by_rule(store.visits(anchors=False))).fetches
        n_pages = self.nowhere + 1 + len(self._others)
        fetches = replace(known, n_pages=n_pages)
        is_got = np.zeros(n_pages, dtype=np.bool_)
        is_got[: self.nowhere] = self.crawl.is_got
        return Walks(fetches, is_got, n_walks, seed, nowhere=self.nowhere)

    def _by_rule(self, visits: Iterable[Visit]) -> Iterator[Visit]:
        """Yield the visits whose links are known, each with those that count."""
        self._counts = Traits()
        for visit in visits:
            if visit.page == NO_PAGE:
                continue
            is_redirect = 300 <= visit.status < 400
            if not failure_of(visit):
                self._counts.add(
                    is_redirect, not (len(visit.targets) or visit.outside), visit.content_hash
                )
            elif not is_final(visit) and not visit.error.startswith(ROBOTS):
                continue
            if is_redirect:
                yield visit
                continue
            urls = [*self._pages.urls(visit.targets.tolist()), *(url for url, _ in visit.outside)]
            # A budget keeps not all that it refuses, and nofollow is kept of no link.
            is_cut = self._is_bounded and sum(map(len, urls[len(visit.targets) :])) > _MOST_OUTSIDE
            if urls and (self._has_nofollow or is_cut):
                continue
            row = self._row(visit.page, urls)
            yield visit._replace(targets=np.array(row, dtype=np.int32))

    def _row(self, page: int, urls: Sequence[str]) -> list[int]:
        """Return the links of a page that count; `nowhere` for each that may or may not."""
        depth = min(self._depth(page) + 1, MAX_DEPTH)
        refuse = self._scope.refuse_all
        urls = [url for url, rule in zip(urls, refuse(urls, 1), strict=True) if not rule]
        is_deep = 0 < self._depth_limit < depth
        refusals = refuse(urls, depth)
        found: dict[int, None] = {}
        n_unsure = 0
        for url, refusal in zip(urls, refusals, strict=True):
            is_known = self._pages.find(self._identity_of(url)) != NO_PAGE
            if is_deep or refusal or (self._is_bounded and not is_known):
                n_unsure += 1
            else:
                found[self.page(url, depth)] = None
        found.pop(page, None)
        return [*found, *[self.nowhere] * n_unsure]

    def advance(self, walks: Walks, pages: Iterable[int]) -> list[int]:
        """Advance walks by the known answers; return the pages to fetch next."""
        ahead, unknown = list(pages), []
        while ahead:
            page = ahead.pop()
            answer = self.answers.get(self._identity_of(self.url(page)))
            if answer is None:
                unknown.append(page)
            elif answer.is_redirect:
                found = dict.fromkeys(self.page(url, self._depth(page)) for url in answer.links)
                found.pop(page, None)
                ahead += walks.answer(page, list(found))
            else:
                ahead += walks.answer(page, self._row(page, answer.links))
        return unknown

    def certificate(self, walks: Walks, draw: str, n_visits: int) -> dict[str, Any]:
        """Return what walks prove, as a part of the receipt; raise `StoreError` if nothing."""
        bias = self.bias()
        if bias:
            raise StoreError(f"{self._path}: {bias}, so nothing is certified.")
        found = walks.certificate()
        return {
            "confidence": CONFIDENCE,
            "at_least": math.floor(found.at_least * 1e4) / 1e4,
            "at_most": min(math.ceil(found.at_most * 1e4) / 1e4, 1.0),
            "likely": round(found.likely, 4),
            "walks": found.n_walks,
            "ended_at_pages_got": found.n_back,
            "unfinished": found.n_open,
            "pages_fetched": len(self.answers),
            "visits": n_visits,
            "seed": draw,
            **self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """Return how many pages had no links, among those crawled and among those walked to."""
        walked = self._traits_of_walked()
        return {
            "walked_pages": walked.n_pages,
            "walked_without_links": walked.n_empty,
            "crawled_pages": self._counts.n_pages,
            "crawled_without_links": self._counts.n_empty,
        }

    def bias(self) -> str:
        """Return why the pages that walks came to cannot stand for the web; empty if they can."""
        n_unlike, n_compared = len(self._unlike), len(self._compared)
        if 10 * n_unlike > n_compared:
            example = min(self._unlike.values())
            return (
                f"of {n_compared:,} pages that were fetched again, {n_unlike:,} answer otherwise "
                f"than in the crawl ({example}, for one)"
            )
        walked = self._traits_of_walked()
        for trait, (n, n_before) in walked.beside(self._counts).items():
            if is_more_than_chance(n, walked.n_pages, n_before, self._counts.n_pages):
                return (
                    f"{n:,} of {walked.n_pages:,} pages that walks came to {trait}, and "
                    f"{n_before:,} of {self._counts.n_pages:,} that the crawl fetched"
                )
        return ""

    def _traits_of_walked(self) -> Traits:
        walked = Traits()
        for answer in self._walked():
            if 200 <= answer.status < 400:
                has_links = answer.links or answer.nofollow
                walked.add(answer.is_redirect, not has_links, answer.content_hash)
        return walked


class Traits:
    """How many pages have no links, are redirects, and have the body of another page."""

    def __init__(self) -> None:
        self.n_pages = self.n_empty = self._n_redirects = 0
        self._hashes = array("q")

    def add(self, is_redirect: bool, is_empty: bool, content_hash: int) -> None:
        """Count a page that was fetched successfully."""
        self.n_pages += 1
        self._n_redirects += is_redirect
        self.n_empty += is_empty
        if content_hash and not is_redirect:
            self._hashes.append(content_hash)

    def beside(self, others: Traits) -> dict[str, tuple[int, int]]:
        """Return how many pages have each trait, here and in `others`."""
        return {
            "have no links": (self.n_empty, others.n_empty),
            "redirect": (self._n_redirects, others._n_redirects),
            "have the text of another": (self._n_repeated, others._n_repeated),
        }

    @property
    def _n_repeated(self) -> int:
        return len(self._hashes) - len(set(self._hashes))


def is_final(visit: Visit) -> bool:
    """Return whether a visit shows what a page links to: it was got, is gone, or is refused by us.

    Another answer (401, 403, 429, 5xx, robots.txt) may be to the one who asks, or to the moment.
    """
    cause = failure_of(visit)
    return not cause or cause in _GONE or visit.error.startswith(REFUSED)


def is_more_than_chance(n: int, of: int, n_before: int, of_before: int) -> bool:
    """Return whether pages of a kind are more frequent now than before, by Fisher's exact test."""
    from scipy.stats import hypergeom

    return bool(hypergeom.sf(n - 1, of + of_before, n + n_before, of) < LEAST_CHANCE)


def draw_of(path: Path) -> tuple[str, str, int]:
    """Return when a store was created, the seed of its walks, and its number of visits.

    The seed is drawn at the first call, and kept: nobody can know it before, or draw again. It is
    another one after more visits.

    Raises `StoreError` if the store cannot be written: its crawl runs, say.
    """
    with _reopened(path) as store:
        kept = store.get_meta(DRAW_KEY).split()
        if kept[1:] != [str(store.n_visits)]:
            kept = [os.urandom(16).hex(), str(store.n_visits)]
            store.set_meta(DRAW_KEY, " ".join(kept))
        return store.get_meta("created"), kept[0], store.n_visits


def keep_certificate(path: Path, certificate: dict[str, Any] | None) -> None:
    """Record a certificate in the store that it is about; None records that there is none.

    Raises `StoreError` if the store cannot be written.
    """
    with _reopened(path) as store:
        store.set_meta(CERTIFICATE_KEY, json.dumps(certificate))


@contextmanager
def _reopened(path: Path) -> Iterator[Store]:
    """Open a store to write; whether its crawl was killed stays what it was."""
    with Store.open(path) as store:
        ended_at = store.ended_at
        yield store
        if ended_at is not None:
            store.end_run(ended_at)
