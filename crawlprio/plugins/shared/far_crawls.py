"""The crawls in Redis that have brains: what `crawlprio frontier` shows of them, and does."""

from __future__ import annotations

import json
import re
from typing import Any

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.redis.cluster import servers
from crawlprio.plugins.redis.scripts import Client
from crawlprio.plugins.shared.mailbox import Mailbox

_KEY = re.compile(r"crawlprio:\{(.*):0\}:crawl", re.DOTALL)

NO_BRAIN = "without a brain"
"""The state of a crawl of which no process is the brain, until a worker starts one."""

_LISTS = ("workers", "leases", "head", "next", "dead")


def crawls(client: Client) -> list[str]:
    """Return the names of the crawls that have brains, sorted. O(keys of the server)."""
    found = (
        _KEY.fullmatch(key.decode())
        for server in servers(client)
        for key in server.scan_iter(match="crawlprio:{*:0}:crawl", count=1000)
    )
    return sorted(key[1] for key in found if key)


def overview(mailbox: Mailbox, most: int) -> dict[str, Any] | None:
    """Return what a brain said last of its crawl, at most a few seconds ago; None without a crawl.

    There are at most `most` rows in each of its lists.
    """
    facts = mailbox.facts()
    if not facts:
        return None
    view: dict[str, Any] = {"ordering": "", "sites": 0, "delayed": 0, "streamed": 0, "now": 0.0}
    counts = ("pages", "visits", "ready", "waiting", "leased", "dead", "taken_over")
    view |= {"counts": dict.fromkeys(counts, 0), **{name: [] for name in _LISTS}}
    view |= json.loads(facts.get("status") or "{}")
    view |= {name: view[name][:most] for name in _LISTS}
    own = facts.get("state", "")
    view |= {"is_elected": False, "shards": 1, "folder": facts.get("folder", "")}
    view["state"] = own or ("" if mailbox.brain() else NO_BRAIN)
    if not mailbox.brain():
        view |= {"workers": [], "leases": []}
    return view


def set_state(mailbox: Mailbox, state: str) -> str:
    """Pause, drain or resume a crawl; return its previous state."""
    before = mailbox.facts().get("state", "")
    mailbox.put_facts(state=state)
    return before


def delete(mailbox: Mailbox, crawl: str, *, confirmed: bool) -> str:
    """Delete a crawl from the server; return what was deleted.

    Raises
    ------
    CrawlprioError
        It has a brain, or `confirmed` is False.
    """
    facts = mailbox.facts()
    if mailbox.brain():
        raise CrawlprioError(
            f"The crawl {crawl!r} is running; delete it once 'crawlprio frontier drain {crawl}' "
            "has ended its workers."
        )
    counts = json.loads(facts.get("status") or "{}").get("counts", {})
    pages, waiting = (int(counts.get(name, 0)) for name in ("pages", "waiting"))
    what = f"{pages:,} pages, {waiting:,} of them waiting"
    if not confirmed:
        raise CrawlprioError(
            f"The crawl {crawl!r} has {what}; add --yes to delete it from Redis. Its store in "
            f"{facts.get('folder')} on {facts.get('host')} is kept."
        )
    mailbox.delete()
    return f"{what}; its store in {facts.get('folder')} is kept"
