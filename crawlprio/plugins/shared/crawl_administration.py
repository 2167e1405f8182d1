"""The crawls on a Redis server, for `crawlprio frontier`, and the reports of their coordinators."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from time import monotonic
from typing import Any

from redis.exceptions import RedisError

from crawlprio.errors import CrawlprioError, printable
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.plugins.shared.connection import Client, checked_client, failure, servers
from crawlprio.plugins.shared.coordinator import Coordinator
from crawlprio.plugins.shared.messages import Field, decimal, each, parsed, row, text, whole
from crawlprio.plugins.shared.redis_streams import RedisStreams
from crawlprio.store.outcomes import DIED

_KEY = re.compile(r"crawlprio:\{(.*):0\}:crawl", re.DOTALL)

NO_COORDINATOR = "without a coordinator"
"""The state of a crawl of which no process is the coordinator, until a worker starts one."""

UNREADABLE = "with an unreadable status"
"""The state of a crawl whose status no coordinator of this version wrote."""

_LISTS = "workers", "leases", "head"
"""The lists of a report, in the order in which they are shown, but that of dead letters."""

_MOST_SHOWN = 100
"""Rows of each list in a report."""

_MOST_SEARCHED = 100_000
"""The next pages are not looked for if more than this many wait."""

_SUMS = ("pages", "visits", "ready", "waiting", "leased", "dead", "taken_over")


class CrawlAdministration:
    """The crawls on the server of a client; methods raise `CrawlprioError` for unknown ones."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    @contextmanager
    def of(cls, settings: Any) -> Iterator[CrawlAdministration]:
        """Open those of the server that settings name; `CrawlprioError` if that is impossible."""
        try:
            yield cls(checked_client(settings))
        except RedisError as error:
            raise failure(error) from None

    def names(self) -> list[str]:
        """Return the names of the crawls, sorted. O(keys of the server)."""
        found = (
            _KEY.fullmatch(key.decode("utf-8", "replace"))
            for server in servers(self._client)
            for key in server.scan_iter(match="crawlprio:{*:0}:crawl", count=1000)
        )
        return sorted(key[1] for key in found if key)

    def overview(self, crawl: str, most: int = 10) -> dict[str, Any]:
        """Return the last report of a crawl, a few seconds old, with `most` rows in each list."""
        streams = self._streams(crawl)
        facts, coordinator = streams.facts(), streams.coordinator()
        view: dict[str, Any] = {"ordering": "", "sites": 0, "delayed": 0}
        view |= {"counts": dict.fromkeys(_SUMS, 0), **{name: [] for name in (*_LISTS, "dead")}}
        view["state"] = facts.get("state", "") or ("" if coordinator else NO_COORDINATOR)
        if facts.get("status"):
            try:
                view |= _STATUS([parsed(facts["status"].encode())])[0]
            except ValueError:
                view["state"] = UNREADABLE
        view |= {name: facts.get(name, "") for name in ("folder", "host")}
        view |= {} if coordinator else {"workers": [], "leases": []}
        view |= {name: view[name][:most] for name in _LISTS}
        view["dead"] = view["dead"][-most:]
        return view

    def set_state(self, crawl: str, state: str) -> str:
        """Pause, drain or resume a crawl; return its previous state."""
        streams = self._streams(crawl)
        before = streams.facts().get("state", "")
        streams.put_facts(state=state)
        return before

    def delete(self, crawl: str, *, confirmed: bool) -> str:
        """Delete a crawl without a coordinator, if `confirmed`; return what was deleted."""
        streams, view = self._streams(crawl), self.overview(crawl, 1)
        if streams.coordinator():
            raise CrawlprioError(
                f"The crawl {crawl!r} is running; delete it once 'crawlprio frontier drain "
                f"{crawl}' has ended its workers."
            )
        pages, waiting = (view["counts"][name] for name in ("pages", "waiting"))
        what = f"{pages:,} pages, {waiting:,} of them waiting"
        if not confirmed:
            raise CrawlprioError(
                f"The crawl {crawl!r} has {what}; add --yes to delete it from Redis. Its store in "
                f"{view['folder']} on {view['host']} is kept."
            )
        streams.delete()
        return f"{what}; its store in {printable(view['folder'])} is kept"

    def _streams(self, crawl: str) -> RedisStreams:
        streams = RedisStreams(self._client, crawl)
        if not streams.facts():
            known = self.names()
            others = f"the crawls there are {', '.join(known)}" if known else "there are no crawls"
            raise CrawlprioError(f"There is no crawl {crawl!r} in Redis; {others}.")
        return streams


def status_report(
    crawl: CrawlContext, coordinator: Coordinator, lease_timeout: float
) -> dict[str, Any]:
    """Return the report of a coordinator; its times are seconds from now."""
    now, recorder, queue = monotonic(), crawl.recorder, coordinator.frontier.queue
    counts = (
        *(len(recorder.pages), recorder.figures.n_fetched, queue.n_ready),
        *(len(coordinator.frontier), coordinator.n_leased, len(coordinator.dead_letters)),
        crawl.crawler.stats.get_value("crawlprio/workers_died", 0),
    )
    head = queue.upcoming(_MOST_SHOWN) if len(queue) <= _MOST_SEARCHED else []
    return {
        "ordering": crawl.config.ordering_name,
        "sites": recorder.pages.n_sites,
        "delayed": queue.n_delayed,
        "counts": dict(zip(_SUMS, counts, strict=True)),
        "workers": [
            {
                **{"name": worker.name, "leases": len(worker.leases), "age": now - worker.since},
                "dead_in": worker.received_at + lease_timeout - now,
            }
            for worker in sorted(coordinator.workers, key=attrgetter("since"))
        ],
        "leases": [
            {"age": seconds, "worker": name, "url": url}
            for url, seconds, name in islice(coordinator.flight(), _MOST_SHOWN)
        ],
        "head": [
            {
                **{"key": float(queue.page_records["key"][page]), "url": recorder.pages.url(page)},
                **{"priority": priority, "hot": int(hot)},
            }
            for page in head
            for priority, hot in [queue.request_rank(page)[:2]]
        ],
        "dead": [{"url": url, "reason": DIED} for url in coordinator.dead_letters[-_MOST_SHOWN:]],
    }


def _record(**fields: Field) -> Field:
    """Return the field that is an object with these fields; others in it are left out."""
    of = row(*fields.values())

    def read(found: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(fields, of([found.get(name) for name in fields]), strict=True))

    return Field("an object", (dict,), read=read)


_N, _AGE, _TEXT = whole(-(2**53), 2**53), decimal(-1e12, 1e12), text()
_STATUS = row(
    _record(
        **{"ordering": _TEXT, "sites": _N, "delayed": _N},
        counts=_record(**dict.fromkeys(_SUMS, _N)),
        workers=each(_record(name=_TEXT, leases=_N, age=_AGE, dead_in=_AGE)),
        leases=each(_record(age=_AGE, worker=_TEXT, url=_TEXT)),
        head=each(_record(key=decimal(-math.inf, math.inf), hot=_N, priority=_N, url=_TEXT)),
        dead=each(_record(url=_TEXT, reason=_TEXT)),
    )
)
"""Reads a list of one report."""
