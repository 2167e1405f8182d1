"""Why a crawl fetched a page, or did not, from its store alone; as documents."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from protego import Protego

from crawlprio.errors import StoreError
from crawlprio.frontier import PageQueue
from crawlprio.frontier.priority_classes import FIRST, Demotion
from crawlprio.frontier.replaying import Replayed, add_waiting, history_of, replay
from crawlprio.frontier.struct_layouts import WAITING
from crawlprio.graph.compiled import plain_until
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.measure.receipt_document import utc_date
from crawlprio.measure.stored_crawl import (
    BUDGETS,
    SETTING_OF,
    SETTINGS_KEY,
    FetchRate,
    number_of,
    recorded_object,
)
from crawlprio.orderings import KeyHistory, Ordering, Part
from crawlprio.store import SiteState, Store
from crawlprio.store.outcomes import DIED, ROBOTS, failure_of, is_refusal, waits_again
from crawlprio.store.visit_rows import VisitColumns
from crawlprio.web.budgets import pattern_of
from crawlprio.web.robots_txt import MAX_BYTES, rules_for
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import canonical, host_of, normalise_url

_FEW = 10_000
"""Pages of a crawl that is replayed in Python: sooner done than to load compiled code."""


@dataclass(frozen=True)
class Policy:
    """What decides the order of a crawl, and which links it follows.

    `ordering` makes the ordering of that name, or of the crawl's latest run if it is empty;
    `hot_queue` and `demotion` make the hot queue, and what puts pages off, if there is one.
    `refuses` returns the rule by which the scope refuses a URL at a depth, or an empty string; it
    is None if the crawl's scope is not known.
    """

    ordering: Callable[[str], Ordering]
    hot_queue: Callable[[], HotQueue | None] = lambda: None
    demotion: Callable[[], Demotion | None] = lambda: None
    max_waiting: int | None = None
    priority_of: Callable[[bytes], int] = lambda request: 0
    refuses: Callable[[str, int], str] | None = None
    obeys_robots: bool = True


class StoredRobots:
    """What the robots.txt files that a crawl read say to it, by the rules in its store."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self._store = store
        self._obeys = policy.obeys_robots
        self._parsed: dict[str, Protego | None] = {}

    def verdict(self, url: str) -> str | None:
        """Return `ROBOTS` if a page is forbidden, "" if not, None if the file was not read."""
        if not self._obeys:
            return ""
        site = urlsplit(url).netloc.rpartition("@")[2]
        if site not in self._parsed:
            rules = self._store.robots(site)
            # The limits hold for the store of somebody else, too.
            kept = None if rules is None else rules_for(rules[:MAX_BYTES], "*")[0]
            self._parsed[site] = None if kept is None else Protego.parse(kept)
        rules_of_site = self._parsed[site]
        if rules_of_site is None:
            return None
        return "" if rules_of_site.can_fetch(url, "*") else ROBOTS


class StorePages:
    """The page table of a store as orderings see it; URLs are read when one is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sites, self.hosts = store.page_sites()

    def __len__(self) -> int:
        return len(self.sites)

    @property
    def n_sites(self) -> int:
        return len(self.hosts)

    @cached_property
    def _urls(self) -> list[str]:
        return list(self._store.page_urls())

    def url(self, page: int) -> str:
        return self._urls[page]


class QueuePlace(NamedTuple):
    """Where a page waits: how many come before it, of how many, in all and on its site."""

    n_before: int
    n_waiting: int
    n_before_on_site: int
    n_waiting_on_site: int


@dataclass
class ReplayedCrawl:
    """A crawl, replayed from its store, inside a snapshot. O(visits log pages).

    `page` is the page to explain, or `NO_PAGE`, and `ordering_name` the ordering to replay under,
    empty for that of the latest run. After `n_visits`, `linking` has the visited pages that link to
    the page, in turn, `site` what was fetched from its site, and `history` what made its key. By
    page, `n_linking` counts the visits that link to it and `found_by` is the page that showed it
    first. `refused` says, by page, why those were refused that wait for another run; `unheld` are
    the pages of requests that JSON cannot hold.
    """

    store: Store
    policy: Policy
    page: int = NO_PAGE
    ordering_name: str = ""
    linking: dict[int, None] = field(default_factory=dict)
    site: FetchRate = field(default_factory=FetchRate)
    refused: dict[int, str] = field(default_factory=dict)
    unheld: set[int] = field(default_factory=set)
    n_visits: int = 0

    def __post_init__(self) -> None:
        self.pages = StorePages(self.store)
        self.ordering = self.policy.ordering(self.ordering_name)
        self.queue = PageQueue(
            self.ordering,
            self.pages,
            hot_queue=self.policy.hot_queue(),
            demotion=self.policy.demotion(),
            max_waiting=self.policy.max_waiting,
            plain_until=plain_until() if len(self.pages) < _FEW else 0,
        )
        self.history = None if self.page == NO_PAGE else KeyHistory(self.ordering, self.page)
        self.seeds = dict.fromkeys(self.store.seeds())
        self._sites = self.pages.sites
        self._site = -1 if self.page == NO_PAGE else int(self._sites[self.page])
        self.n_linking = np.zeros(len(self.pages), dtype=np.int32)
        self.found_by = np.full(len(self.pages), NO_PAGE, dtype=np.int32)

    def replay(self, *, until_fetched: bool) -> None:
        """Replay the visits, all or until the page's own."""
        n_pages = len(self.pages)
        replayed = replay(self.queue, self._visits(), self.seeds, n_pages, self.history)
        with contextlib.closing(replayed):
            for some in replayed:
                if until_fetched and some.columns.pages[some.rows.start] == self.page:
                    break
                self._note(some)
            else:
                waiting = add_waiting(self.queue, self.store, self.policy.priority_of)
                self.unheld.update(request.page for request in waiting if request.is_unheld)
        self.queue.judge_all()

    def _visits(self) -> Iterator[VisitColumns]:
        """Yield the visits of the store, and note which of them are refusals."""
        has_rows = self.queue.takes_rows
        visits = self.store.visit_columns() if has_rows else history_of(self.queue, self.store)
        for group in visits:
            for at in np.flatnonzero(group.is_refused).tolist():
                self.refused[int(group.pages[at])] = group.errors[at]
            yield group

    def _note(self, replayed: Replayed) -> None:
        group, done = replayed.columns, replayed.rows
        pages, n_before = group.pages[done], replayed.n_before[done]
        is_evidence = ~group.is_refused[done] & (pages != NO_PAGE)
        self.n_visits += int(np.count_nonzero(is_evidence))
        begins = group.begins[done.start : done.stop + 1]
        targets, n_links = group.targets[begins[0] : begins[-1]], np.diff(begins)
        shown, sources = np.repeat(is_evidence, n_links), np.repeat(pages, n_links)
        np.add.at(self.n_linking, targets[shown], np.int32(1))  # 1 takes forty times as long
        is_new = shown & (targets >= np.repeat(n_before, n_links))
        self.found_by[targets[is_new]] = sources[is_new]
        if self.page == NO_PAGE:
            return
        self.linking.update(dict.fromkeys(sources[shown & (targets == self.page)].tolist()))
        is_own = is_evidence & (self._sites[pages] == self._site)
        for at in (done.start + np.flatnonzero(is_own)).tolist():
            self.site.add(group.visit(at))

    def place(self, page: int) -> QueuePlace:
        """Return where a page waits if no site has to wait. O(pages log pages).

        Where sites are ranked, this takes all pages before it out of the queue.
        """
        known = self.queue.page_records
        waiting = np.flatnonzero(known["state"] == WAITING)
        priority_classes = known["priority_class"][waiting].astype(np.int64)
        waiting = waiting[np.lexsort((waiting, -known["key"][waiting], -priority_classes))]
        n_before = int(np.flatnonzero(waiting == page)[0])
        is_own = self.pages.sites[waiting] == self.pages.sites[page]
        of_site = int(is_own[:n_before].sum()), int(is_own.sum())
        ordering = self.ordering
        if ordering.site_share or type(ordering).site_key is not Ordering.site_key:
            n_before = next(at for at, first in enumerate(self.head()) if first == page)
        return QueuePlace(n_before, len(waiting), *of_site)

    def head(self) -> Iterator[int]:
        """Take the pages out of the queue, first to last, as if no site had to wait."""
        while (page := self.queue.next_page(0.0)) != NO_PAGE:
            self.queue.release(page)
            yield page

    def urls(self, pages: PageIds | NDArray[np.int32] | list[int]) -> dict[int, str]:
        """Return the URLs of pages; those that are no page are left out."""
        known = sorted({int(page) for page in pages} - {NO_PAGE})
        rows = self.store.read_urls(known)
        return {page: url for page, (url, _) in zip(known, rows, strict=True)}


BY_LINK = ("nofollow", "depth", "claim-budget", "sites", "private-address", "long-url")
"""Rules that a URL alone does not tell."""

N_LINKING = 10


def why_unknown(store: Store, policy: Policy, url: str) -> dict[str, Any]:
    """Return the rules that may have refused a URL, and the pages that link to it.

    `rules` has one entry if the rule is known, several if the store allows no decision, and none if
    nothing refuses the URL.
    """
    linking = store.outside_links(url)
    refusals = store.refusals()
    robots = StoredRobots(store, policy).verdict(url)
    rules = [rule for rule, refusal in refusals.items() if url in refusal.examples]
    if not rules:
        depth = linking[0].depth + 1 if linking else 1
        by_url = (policy.refuses(url, depth) if policy.refuses else "") or _full(store, url)
        by_url = by_url or robots or ""
        rules = [by_url] if by_url else [rule for rule in BY_LINK if linking and rule in refusals]
    urls = [found for found, _ in store.read_urls([link.page for link in linking[:N_LINKING]])]
    return {
        "rules": [{"rule": rule, "setting": SETTING_OF.get(rule)} for rule in rules],
        "linked_by": len(linking),
        "linking": [
            {"url": source, "anchor": link.anchor}
            for source, link in zip(urls, linking, strict=False)
        ],
        "scope_is_known": policy.refuses is not None,
        "robots_are_known": robots is not None,
    }


def _full(store: Store, url: str) -> str:
    """Return the budget that has no room for a URL, as the crawl counts, or an empty string."""
    recorded = recorded_object(store, SETTINGS_KEY)
    limits = (recorded.get(SETTING_OF[budget]) for budget in BUDGETS)
    per_site, per_domain, per_pattern = (
        limit if isinstance(limit, int | float) else None for limit in limits
    )
    host = host_of(url)
    sites, hosts = store.page_sites()
    if host not in hosts:
        return ""
    site = hosts.index(host)
    if per_site is not None and np.count_nonzero(sites == site) >= per_site:
        return "site-budget"
    if per_domain is not None:
        domain = registered_domain(host)
        of_domain = [at for at, name in enumerate(hosts) if name.endswith(domain)]
        of_domain = [at for at in of_domain if registered_domain(hosts[at]) == domain]
        if np.count_nonzero(np.isin(sites, of_domain)) >= per_domain:
            return "domain-budget"
    pattern = pattern_of(url)
    if per_pattern is not None and pattern:
        known = store.read_urls(np.flatnonzero(sites == site).tolist())
        if sum(pattern_of(found) == pattern for found, _ in known) >= per_pattern:
            return "pattern-budget"
    return ""


def site_of(past: ReplayedCrawl, page: int, n_before: int, now: float) -> dict[str, Any]:
    """Return the state of the site of a waiting page, and the time that its pages need.

    `not_before_seconds` counts from `now`, a Unix time, for a crawl that goes on then: what is left
    of the site's delay, and then the `n_before` pages of the site that come first, at the pace so
    far.
    """
    site = int(past.pages.sites[page])
    host, fetched = past.pages.hosts[site], past.site
    states = {state.host: state for state in past.store.site_states()}
    known = states.get(host, SiteState(host))
    settings = recorded_object(past.store, SETTINGS_KEY)
    delay = max(number_of(settings, "DOWNLOAD_DELAY", 0.0), known.crawl_delay or 0.0)
    rest = max(fetched.ended_at + delay - now, known.paused_until - now, 0.0)
    a_page = delay + (fetched.seconds / fetched.n_fetches if fetched.n_fetches else 0.0)
    return {
        "host": host,
        "fetched": fetched.n_fetches,
        "delay_seconds": delay,
        "crawl_delay": known.crawl_delay,
        "refusals": known.refusals,
        "paused_seconds": max(round(known.paused_until - now, 1), 0.0),
        "not_before_seconds": round(rest + n_before * a_page, 1),
    }


N_HEAD = 20
"""Pages of the head of the frontier."""


def explain_head(path: str | Path, policy: Policy) -> dict[str, Any]:
    """Return the pages that a crawl fetches next, if no site has to wait, each with its key.

    Pages before them that robots.txt forbids are counted instead. Raises CrawlprioError if the
    store cannot be read, has no crawl, or its ordering cannot be made.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        _check_crawl(store)
        past = ReplayedCrawl(store, policy)
        past.replay(until_fetched=False)
        queue, n_waiting = past.queue, len(past.queue)
        head, n_forbidden = _allowed(past, StoredRobots(store, policy))
        urls = past.urls([*head, *past.found_by[head].tolist()])
        return {
            **_crawl(store, past),
            "waiting": n_waiting,
            "forbidden": n_forbidden,
            "head": [
                {
                    "url": urls[page],
                    "key": float(queue.page_records["key"][page]),
                    **_priority_class(past, page),
                    "linked_by": int(past.n_linking[page]),
                    "found_by": urls.get(int(past.found_by[page])),
                    "refused": past.refused.get(page),
                }
                for page in head
            ],
        }


def _allowed(past: ReplayedCrawl, robots: StoredRobots) -> tuple[list[int], int]:
    """Return the first pages that may be fetched, and how many before them may not."""
    found: list[int] = []
    n_forbidden = 0
    head = past.head()
    while some := list(islice(head, N_HEAD - len(found))):
        urls = past.urls(some)
        for page in some:
            is_forbidden = robots.verdict(urls[page]) == ROBOTS
            n_forbidden += is_forbidden
            found += [] if is_forbidden else [page]
    return found, n_forbidden


def explain_url(path: str | Path, policy: Policy, url: str) -> dict[str, Any]:
    """Return what happened to a URL in a crawl, and why; `state` names the outcome.

    It is `waiting`, `in-flight`, `fetched`, `failed`, `refused`, `dropped` or `unknown`. Raises
    CrawlprioError as `explain_head` does.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        _check_crawl(store)
        normal = normalise_url(url)
        page = store.find_page(dict.fromkeys((url, normal or url, canonical(normal or url))))
        if page == NO_PAGE:
            return {"url": url, "state": "unknown", **why_unknown(store, policy, normal or url)}
        visits = store.visits_of(page)
        fetches = [
            (seq, visit) for seq, visit in visits if not waits_again(visit.status, visit.error)
        ]
        if fetches:
            return _of_fetched(store, policy, page, fetches)
        return _of_waiting(store, policy, page, visits)


def _of_fetched(
    store: Store, policy: Policy, page: int, fetches: list[tuple[int, Visit]]
) -> dict[str, Any]:
    """Return what is known of a page that was fetched: when, why then, and what it brought."""
    first, visit = fetches[0]
    names = [name for begin, name in store.orderings() if begin <= first]
    past = ReplayedCrawl(store, policy, page, names[-1] if names else "")
    past.replay(until_fetched=True)
    n_known = int(past.queue.ordering.n_pages)
    failure = failure_of(fetches[-1][1])
    return {
        **_page(store, past, page),
        "state": "failed" if failure else "fetched",
        **({"because": failure} if failure else {}),
        "visits": [_visit(seq, each) for seq, each in fetches],
        "brought": {
            "links": len(visit.targets),
            "new_pages": int((visit.targets >= n_known).sum()),
        },
        "then": {
            "ordering": names[-1] if names else None,
            **(_key(past, page) if past.queue.state(page) == WAITING else {}),
        },
    }


def _of_waiting(
    store: Store, policy: Policy, page: int, visits: list[tuple[int, Visit]]
) -> dict[str, Any]:
    past = ReplayedCrawl(store, policy, page)
    past.replay(until_fetched=False)
    found = _page(store, past, page)
    if past.queue.state(page) != WAITING:
        rule, setting = "no room", "CRAWLPRIO_MAX_WAITING"
        if page in past.unheld:
            rule, setting = "its request cannot be stored, and waits only while the crawl runs", ""
        return {**found, "state": "dropped", "rule": rule, "setting": setting or None}
    found["state"] = "in-flight" if _priority_class(past, page)["in_flight"] else "waiting"
    if visits:
        last = visits[-1][1]
        found["visits"] = [_visit(seq, visit) for seq, visit in visits]
        if is_refusal(last.status, last.error):
            rule = last.error.partition(" (")[0]
            of_rule = SETTING_OF.get(rule.partition(":")[0])
            found |= {"state": "refused", "rule": rule, "setting": of_rule}
        elif last.error != DIED:
            found |= {"state": "failed", "because": failure_of(last)}
    robots = StoredRobots(store, policy).verdict(found["url"])
    if robots and not visits:
        found |= {"rule": robots, "setting": SETTING_OF.get(robots)}
    found["robots_are_known"] = robots is not None
    key = _key(past, page)
    site = site_of(past, page, key["place"]["n_before_on_site"], time.time())
    return found | key | {"site": site}


def _check_crawl(store: Store) -> None:
    if not store.n_pages:
        raise StoreError(f"{store.path} has no crawl: no page is known; start one first.")


def _crawl(store: Store, past: ReplayedCrawl) -> dict[str, Any]:
    names = [name for _, name in store.orderings(unused=True)]
    return {"ordering": names[-1] if names else None, "after_visits": past.n_visits}


def _page(store: Store, past: ReplayedCrawl, page: int) -> dict[str, Any]:
    """Return who a page is, and which pages link to it that were visited before it, or at all."""
    ((url, _),) = store.read_urls([page])
    linking = [*islice(past.linking, N_LINKING)]
    urls = past.urls(linking)
    found_by = int(past.found_by[page])
    return {
        "url": url,
        **_crawl(store, past),
        "is_seed": page in past.seeds,
        "found_by": past.urls([found_by]).get(found_by),
        "linked_by": len(past.linking),
        "linking": [urls[source] for source in linking],
    }


def _priority_class(past: ReplayedCrawl, page: int) -> dict[str, Any]:
    """Return the request priority of a page, and whether it is hot, in flight or put off."""
    priority, is_hot = past.queue.request_rank(page)
    is_first = priority == FIRST
    return {
        "priority": 0 if is_first else priority,
        "hot": is_hot,
        "in_flight": is_first,
        "put_off": past.queue.is_demoted(page),
    }


def _key(past: ReplayedCrawl, page: int) -> dict[str, Any]:
    """Return the key of a page, how it came about, and its place."""
    key = float(past.queue.page_records["key"][page])
    assert past.history is not None
    part = past.ordering.explain_history(past.history)
    if part.amount != key or not part.adds_up():
        part = Part("its key", key)
    return {
        "key": key,
        "explanation": _json(part, past.urls(_pages_of(part))),
        **_priority_class(past, page),
        "place": past.place(page)._asdict(),
    }


def _json(part: Part, urls: Mapping[int, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"what": part.what, "amount": part.amount}
    if part.page != NO_PAGE:
        found["page"] = urls[part.page]
    if part.parts:
        found |= {"factor": part.factor, "parts": [_json(inner, urls) for inner in part.parts]}
    return found


def _pages_of(part: Part) -> list[int]:
    return [part.page, *(page for inner in part.parts for page in _pages_of(inner))]


def _visit(seq: int, visit: Visit) -> dict[str, Any]:
    return {
        "visit": seq,
        "status": visit.status,
        "error": visit.error,
        "title": visit.title,
        "fetched_at": utc_date(visit.fetched_at),
        "seconds": visit.elapsed,
        "bytes": visit.n_bytes,
    }
