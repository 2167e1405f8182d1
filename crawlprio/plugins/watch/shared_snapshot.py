"""What the live view shows of a crawl in Redis: its workers, and the frontier that they share."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import run_in_thread

from crawlprio.measure.receipt_document import duration
from crawlprio.plugins.redis.connection import connect
from crawlprio.plugins.redis.operating import DRAINING, PAUSED, RUNNING, overview, set_state
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.plugins.watch.snapshot import N_NEXT, Rows
from crawlprio.settings_table.config import read_setting
from crawlprio.show.report_parts import page, text

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_STATES = {RUNNING: "running", PAUSED: "paused", DRAINING: "ending"}


class SharedCrawl:
    """Asks the server of a crawl for its state, and changes it for all workers."""

    def __init__(self, settings: BaseSettings, spider_name: str) -> None:
        name = read_setting(settings, "CRAWLPRIO_REDIS_CRAWL") or spider_name
        self._prefix = prefix_of(name)
        self._client = connect(
            read_setting(settings, "REDIS_URL"), read_setting(settings, "REDIS_PARAMS")
        )
        self._before: tuple[float, int] | None = None

    async def document(self) -> dict[str, Any]:
        """Return what replaces parts of a worker's own document; raises CrawlprioError."""
        return self._document(await run_in_thread(overview, self._client, self._prefix, N_NEXT))

    async def set_state(self, state: str) -> None:
        """Pause (`paused`), drain (`ending`) or resume (`running`) the crawl."""
        inner = next(key for key, shown in _STATES.items() if shown == state)
        await run_in_thread(set_state, self._client, self._prefix, inner)

    def close(self) -> None:
        self._client.close()

    def _document(self, view: dict[str, Any]) -> dict[str, Any]:
        counts, now = view["counts"], view["now"]
        n_visits = int(counts["visits"])
        at, n_then = self._before or (monotonic(), n_visits)
        seconds = monotonic() - at
        if self._before is None or seconds > 10.0:
            self._before = monotonic(), n_visits
        rate = (n_visits - n_then) / max(seconds, 1e-3)
        figures = {
            "Pages per second": f"{rate:,.1f}",
            "Fetched": f"{n_visits:,}",
            "Waiting": f"{int(counts['waiting']):,}",
            "Leased": f"{int(counts['leased']):,}",
            "Pages known": f"{int(counts['pages']):,}",
            "Sites known": f"{int(view['sites']):,}",
            "Dead letters": f"{int(counts['dead']):,}",
        }
        return {
            "state": _STATES.get(view["state"], "running"),
            "rate": rate,
            "shared": [[name, shown] for name, shown in figures.items()],
            "waits": [
                f"Sites that can be fetched from now: {int(counts['ready']):,}.",
                f"Sites that rest until their delay is over: {int(view['delayed']):,}.",
            ],
            "tables": {
                "workers": self._workers(view, now),
                "next": self._next(view),
                "resting": [
                    [
                        text(site["site"]).text,
                        f"{int(site['waiting']):,}",
                        duration(max(site["ready_at"] - now, 0.0)),
                        "its delay",
                    ]
                    for site in view["next"]
                ],
            },
        }

    def _workers(self, view: dict[str, Any], now: float) -> Rows:
        return [
            [
                text(worker["name"]).text,
                f"{int(worker['leases']):,}",
                duration(max(now - worker["since"], 0.0)),
                "alive" if worker["dead_at"] >= now else "silent",
            ]
            for worker in view["workers"]
        ]

    def _next(self, view: dict[str, Any]) -> Rows:
        """Return the first page of each ready site."""
        rows: Rows = []
        for each in view["head"]:
            why = [f"priority {each['priority']}"] if each["priority"] else []
            why += ["in the hot queue"] if each["hot"] else []
            why += [f"links from a seed: {each['depth']}"]
            cell = page(each["url"])
            rows.append([[cell.text, cell.url], f"{float(each['key']):.6g}", "; ".join(why)])
        return rows
