"""Moving a crawl from a crawl store into Redis and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, repeat
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.frontier.replaying import FIRST
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.items import LinkPairs
from crawlprio.live.private_networks import record_in
from crawlprio.live.request_json import priority_of
from crawlprio.plugins.redis.caller import Caller
from crawlprio.plugins.redis.cluster import script_keys
from crawlprio.plugins.redis.collect import Collected, collect
from crawlprio.plugins.redis.collector import ids_by_shard
from crawlprio.plugins.redis.connection import delete_crawl, open_crawl, share_seeds
from crawlprio.plugins.redis.failures import failure
from crawlprio.plugins.redis.operating import overview
from crawlprio.plugins.redis.recovery import deliver_all
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.scripts import Argument, Client, load_scripts, script
from crawlprio.plugins.redis.shards import shards_of
from crawlprio.plugins.redis.wire import LINKS_PER_CALL, Piece, Wire, record
from crawlprio.settings_table.config import CrawlConfig, read_setting
from crawlprio.store import Store
from crawlprio.store.crawl_state import RequestRow
from crawlprio.store.outcomes import got

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_CALLS = 50
"""Calls per round trip."""


def shared_options(settings: BaseSettings) -> dict[str, str]:
    """Return the options that all workers of a crawl must share, as text."""
    return {
        name: json.dumps(read_setting(settings, name), sort_keys=True, default=str)
        for name in ("ORDERING_OPTIONS", "TOPIC", "TOPIC_OPTIONS")
    }


def load(
    client: Client,
    prefix: str,
    path: Path,
    settings: BaseSettings,
    *,
    progress: Callable[[int], object] = lambda n_visits: None,
) -> Collected:
    """Load the crawl of a store into Redis, where workers with these settings can resume it.

    The visits are replayed in order, as on a local resume, and are written to the stream, so a
    later `collect` yields all of them. Not loaded: Crawl-delay and Retry-After values learned from
    sites, and stored items. If loading fails, nothing is left in Redis. O(visits).

    Parameters
    ----------
    client, prefix
        The server, and the prefix of the crawl's keys, which must not exist yet.
    path
        The store; it is not changed.
    settings
        The settings of the workers.
    progress
        Called with the number of visits loaded so far.

    Raises
    ------
    CrawlprioError
        If a crawl of this name exists, the store cannot be read, or a setting is invalid.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        try:
            if client.exists(f"{prefix}:config") or client.exists(f"{prefix}:visits"):
                raise CrawlprioError(
                    f"A crawl under {prefix} already exists in Redis; choose another name "
                    "(CRAWLPRIO_REDIS_CRAWL), or collect that crawl and delete its keys."
                )
            load_scripts(client)
            try:
                return _Loader(client, prefix, store, settings).run(progress)
            except BaseException:
                delete_crawl(client, prefix)
                raise
        except RedisError as error:
            raise failure(error) from None


class _Loader:
    """Loads one store."""

    def __init__(self, client: Client, prefix: str, store: Store, settings: BaseSettings) -> None:
        config = CrawlConfig.from_settings(settings, records=False)
        n_shards = read_setting(settings, "CRAWLPRIO_REDIS_SHARDS")
        if n_shards > 1:
            raise CrawlprioError(
                f"CRAWLPRIO_REDIS_SHARDS is {n_shards}, but a store can be loaded into 1 shard "
                "only; leave the setting out."
            )
        rules = rules_of(config.ordering, config.ordering_name, has_topic=config.topic is not None)
        open_crawl(
            client,
            prefix,
            config,
            rules,
            lease_seconds=read_setting(settings, "CRAWLPRIO_LEASE_SECONDS"),
            records=rules.is_elected or read_setting(settings, "CRAWLPRIO_STORE") is not None,
            others=shared_options(settings),
        )
        self._client = client
        self._store = store
        self._pages: PageTable = store.load_pages()
        new = self._pages.new_since(0, 0)
        self._identities = [new.keys.get(at, url) for at, url in enumerate(new.urls)]
        self._seeds = set(store.seeds())
        self._wire = Wire(rules, config, bounded=True)
        self._caller = Caller(client, prefix)
        self._calls: list[Argument] = []
        self._n_calls = self._n_links = 0

    def run(self, progress: Callable[[int], object]) -> Collected:
        store, pages = self._store, self._pages
        n_known = n_visits = 0
        for visit in store.visits():
            # As on a local resume, see `LocalFrontier`.
            targets = set(visit.targets.tolist())
            n_pages = max(n_known, visit.page + 1, max(targets, default=-1) + 1)
            n_before = n_known
            if visit.page == NO_PAGE:
                n_known = n_pages
            elif n_pages > n_known:
                while n_known < n_pages and n_known not in targets:
                    n_known += 1
            self._discover(range(n_before, n_known))
            if visit.page != NO_PAGE:
                self._visit(visit, range(n_known, n_pages))
                n_visits += 1
                progress(n_visits)
            n_known = n_pages
        self._discover(range(n_known, len(pages)))
        for _, page, request in store.requests():
            url, priority = pages.url(page), priority_of(request)
            domain = self._domain_of(page)
            self._call("load_request", page, "request", priority, request, url, domain)
        for page in store.unfiltered():
            self._call("load_request", page, "unfiltered", 0, b"")
        for page in store.leased():
            self._call("load_request", page, "first", FIRST, b"")
        self._send()
        share_seeds(self._client, self._caller.prefix, record_in(store)({}))
        self._caller.leave()
        return Collected(n_visits, len(pages))

    def _discover(self, pages: range) -> None:
        """Add pages that no visit discovered: seeds and the pages of requests."""
        depths = self._pages.depths
        parts = (pages[at : at + LINKS_PER_CALL] for at in range(0, len(pages), LINKS_PER_CALL))
        groups = (groupby(part, key=lambda page: int(depths[page])) for part in parts)
        for depth, group in chain.from_iterable(groups):
            new = list(group)
            seeds = [page for page in new if page in self._seeds]
            (piece,) = self._pieces(range(new[0], new[-1] + 1))
            self._load("", depth, b"", json.dumps(seeds), b"", "", 0, [piece])

    def _visit(self, visit: Visit, new: range) -> None:
        """Replay a visit. The pages it discovered have the depth of the first of them."""
        if visit.page in new[LINKS_PER_CALL:]:  # the first call must know it
            at = new.index(visit.page) + 1
            self._discover(new[:at])
            new = new[at:]
        targets = visit.targets.tolist()
        depth = int(self._pages.depths[new[0]]) if new else 0
        pairs = LinkPairs(
            "",
            [],
            list(visit.anchors),
            list(visit.outside),
            status=visit.status,
            title=visit.title,
            text=visit.text,
            content_hash=visit.content_hash,
            n_bytes=visit.n_bytes,
        )
        page_visit = PageVisit(
            pairs, fetched_at=visit.fetched_at, elapsed=visit.elapsed, error=visit.error
        )
        first, *parts = self._pieces(new, targets, visit.anchors)
        self._load(
            visit.page,
            depth,
            record(page_visit),
            b"",
            json.dumps(targets + [NO_PAGE] * len(visit.outside)),
            self._domain_of(visit.page),
            got(visit.status, has_links=bool(targets)),
            [first, *parts],
        )
        for part in parts:
            name = f"{self._caller.worker} {visit.page}"
            self._call("more", name, n_links=part.n_followed)

    def _domain_of(self, page: int) -> str:
        return self._wire.domain(self._pages.host(int(self._pages.sites[page])))

    def _pieces(
        self, new: range, targets: Sequence[int] = (), anchors: Sequence[str] = ()
    ) -> list[Piece]:
        """Return the new pages and the targets of a visit, in pieces for `load.lua`."""
        pages, identities = self._pages, self._identities
        anchor_of = dict(zip(targets, chain(anchors, repeat("")), strict=False))
        linked = [*new, *(page for page in targets if page not in new)]
        pieces = []
        for at in range(0, max(len(linked), 1), LINKS_PER_CALL):
            here = linked[at : at + LINKS_PER_CALL]
            found = [page for page in here if page in new]
            no_targets = [link for link, page in enumerate(found, 1) if page not in anchor_of]
            links = self._wire.links(
                pages.urls(found),
                [identities[page] for page in found],
                [anchor_of.get(page, "") for page in found],
                [(identities[page], anchor_of[page]) for page in here[len(found) :]],
            )
            n_targets = len(here) - len(no_targets)
            pieces.append(Piece(len(here), n_targets, [len(here), json.dumps(no_targets), *links]))
        return pieces

    def _load(self, *arguments_and_pieces: Any) -> None:
        *arguments, (first, *parts) = arguments_and_pieces
        self._call(
            "load",
            *arguments,
            *first.arguments,
            sum(part.n_targets for part in parts),
            len(parts),
            *(part.packed for part in parts),
            n_links=first.n_followed,
        )

    def _call(self, name: str, *arguments: Argument, n_links: int = 0) -> None:
        """Collect a call for a round trip, which has at most `LINKS_PER_CALL` links."""
        if self._n_calls >= _CALLS or self._n_links + n_links > LINKS_PER_CALL:
            self._send()
        self._calls += (name, len(arguments), *arguments)
        self._n_calls += 1
        self._n_links += n_links

    def _send(self) -> None:
        if self._calls:
            self._caller.run(self._calls, self._n_calls)
            self._calls, self._n_calls, self._n_links = [], 0, 0


def save(
    client: Client,
    prefix: str,
    path: Path,
    *,
    progress: Callable[[int], object] = lambda n_visits: None,
) -> Collected:
    """Collect a crawl, with its waiting requests, into a store to resume it in one process.

    Save it as the store of a job directory, then resume with that JOBDIR. The crawl in Redis is not
    changed, except that messages left by dead workers are delivered.

    Raises
    ------
    CrawlprioError
        If the crawl has workers, or for the reasons that `collect` has.
    """
    try:
        shards = shards_of(client, prefix)
        shown = overview(client, prefix)
        n_workers = sum(worker["dead_at"] >= shown["now"] for worker in shown["workers"])
        if n_workers:
            raise CrawlprioError(
                f"The crawl under {prefix} is running (workers: {n_workers}), and the pages leased "
                "by its workers would be missing; drain it and wait until they have ended."
            )
        deliver_all(client, shards)
    except RedisError as error:
        raise failure(error) from None
    collected = collect(client, prefix, path, trims=False, progress=progress)
    with Store.open(path) as store:
        ids = ids_by_shard(store.stored_pages(), shards)
        found = sorted(
            (number, shard, page, request)
            for shard, shard_prefix in enumerate(shards.prefixes)
            for number, page, request in _waiting(client, shard_prefix)
        )
        waiting = [
            RequestRow(number, ids[shard][page], request)
            for number, (_, shard, page, request) in enumerate(found, store.last_request + 1)
        ]
        store.replace_requests(waiting)
        record_in(store)(share_seeds(client, prefix, {}))
        store.end_run(time())
    return collected


def _waiting(client: Client, prefix: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, page and JSON of each waiting request, in scan order."""
    cursor: Any = 0
    try:
        while True:
            reply = client.eval(script("waiting").text, *script_keys(prefix), "", 0, cursor)
            cursor, *values = reply
            fields = iter(values)
            for page, url, number, priority, request in zip(*[fields] * 5, strict=True):
                plain = {"url": url.decode()}
                if int(priority):
                    plain["priority"] = int(priority)
                yield int(number), int(page), request or json.dumps(plain).encode()
            if int(cursor) == 0:
                return
    except RedisError as error:
        raise failure(error) from None
