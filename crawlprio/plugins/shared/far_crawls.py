"""The crawls on a Redis server: what `crawlprio frontier` shows of them, and does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.shared.connection import Client, checked_client, failure, servers
from crawlprio.plugins.shared.mailbox import Mailbox

_KEY = re.compile(r"crawlprio:\{(.*):0\}:crawl", re.DOTALL)

NO_BRAIN = "without a brain"
"""The state of a crawl of which no process is the brain, until a worker starts one."""

_ORDERS: dict[str, Any] = {
    "workers": lambda worker: -worker["age"],
    "leases": lambda lease: -lease["age"],
    "head": lambda page: (-page["priority"], -page["hot"], -float(page["key"])),
}
"""The lists of a report but that of dead letters, and the order of their rows."""

_SUMS = ("pages", "visits", "ready", "waiting", "leased", "dead", "taken_over")


class FarCrawls:
    """The crawls on the server of a client.

    Methods raise `CrawlprioError` for a crawl that is not there.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    @contextmanager
    def of(cls, settings: Any) -> Iterator[FarCrawls]:
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
        """Return what the brains of a crawl said last of it, at most a few seconds ago.

        There are at most `most` rows in each of its lists.
        """
        reports = [_report(mailbox) for mailbox in self._mailboxes(crawl)]
        view = {**reports[0], "shards": len(reports)}
        for name in ("sites", "delayed"):
            view[name] = sum(report[name] for report in reports)
        view["counts"] = {
            name: sum(int(report["counts"][name]) for report in reports) for name in _SUMS
        }
        for name, order in _ORDERS.items():
            rows = (row for report in reports for row in report[name])
            view[name] = sorted(rows, key=order)[:most]
        view["dead"] = [letter for report in reports for letter in report["dead"]][-most:]
        return view

    def set_state(self, crawl: str, state: str) -> str:
        """Pause, drain or resume a crawl; return its previous state."""
        mailboxes = self._mailboxes(crawl)
        before = mailboxes[0].facts().get("state", "")
        for mailbox in mailboxes:
            mailbox.put_facts(state=state)
        return before

    def delete(self, crawl: str, *, confirmed: bool) -> str:
        """Delete a crawl that has no brain, if that is `confirmed`; return what was deleted."""
        mailboxes, view = self._mailboxes(crawl), self.overview(crawl, 1)
        if any(mailbox.brain() for mailbox in mailboxes):
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
        for mailbox in mailboxes:
            mailbox.delete()
        return f"{what}; its store in {view['folder']} is kept"

    def _mailboxes(self, crawl: str) -> list[Mailbox]:
        """Return the mailboxes of a crawl's shards."""
        mailbox = Mailbox(self._client, crawl)
        facts = mailbox.facts()
        if not facts:
            known = self.names()
            others = f"the crawls there are {', '.join(known)}" if known else "there are no crawls"
            raise CrawlprioError(f"There is no crawl {crawl!r} in Redis; {others}.")
        return mailbox.of_shards(int(facts.get("shards", 1)))


def _report(mailbox: Mailbox) -> dict[str, Any]:
    """Return what one brain said last, and whether there is one."""
    facts, brain = mailbox.facts(), mailbox.brain()
    view: dict[str, Any] = {"ordering": "", "sites": 0, "delayed": 0}
    view |= {"counts": dict.fromkeys(_SUMS, 0), **{name: [] for name in (*_ORDERS, "dead")}}
    view |= json.loads(facts.get("status") or "{}")
    view |= {name: facts.get(name, "") for name in ("folder", "host")}
    view["state"] = facts.get("state", "") or ("" if brain else NO_BRAIN)
    return view if brain else view | {"workers": [], "leases": []}
