"""A timed crawl with plain lists: what fetches, transfers, delays and robots do at each moment.

It keeps nothing that can be recomputed.
"""

from dataclasses import dataclass, field
from typing import Any

from .base import ORDERINGS
from .crawler import belongs_in_hot_queue
from .web import Record


@dataclass(frozen=True)
class Roads:
    """What fetches take; numbers may be floats or fractions.

    Parameters
    ----------
    speed
        Bytes/s of each site; None: no limit. `bandwidth` likewise.
    """

    robots: int = 1
    k: int = 1
    bandwidth: Any = None
    latency: dict[int, Any] = field(default_factory=dict)
    n_bytes: dict[int, Any] = field(default_factory=dict)
    speed: dict[int, Any] = field(default_factory=dict)
    delay: Any = 0.0
    small_site_delay: Any = None
    small_site_pages: int = 100
    adaptive: Any = 0.0
    max_adaptive: Any = 60.0
    site_bandwidth: Any = 0.0


@dataclass
class Fetch:
    """A fetch in flight. `rate` is None before its transfer; `end` is None until it is known."""

    number: int
    page: int
    site: int
    started: Any
    begins: Any
    left: Any
    since: Any = None
    rate: Any = None
    end: Any = None


def shares(speeds, bandwidth):
    """Return the rate of each transfer: at most its speed, and an equal share of the rest."""
    rates = [None] * len(speeds)
    left, n = bandwidth, len(speeds)
    limited = [i for i in range(len(speeds)) if speeds[i] is not None]
    unlimited = [i for i in range(len(speeds)) if speeds[i] is None]
    for i in [*sorted(limited, key=lambda i: speeds[i]), *unlimited]:
        if speeds[i] is not None and speeds[i] < left / n:
            rates[i] = speeds[i]
            left, n = left - speeds[i], n - 1
        else:
            rates[i] = left / n  # the same rate for all that follow
    return rates


def pause(roads, elapsed, n_bytes, n_known):
    """Return the seconds from the end of a fetch to the next start on its site."""
    is_small = roads.small_site_delay is not None and n_known < roads.small_site_pages
    delay = roads.small_site_delay if is_small else roads.delay
    if roads.adaptive:
        delay = max(delay, min(roads.adaptive * elapsed, roads.max_adaptive))
    if roads.site_bandwidth:
        delay = max(delay, n_bytes / roads.site_bandwidth - elapsed)
    return delay


def timed_crawl(web, seeds, ordering, roads, budget=None, topic=None, zero=0.0, **options):
    """Return (page, start, end, place among the visits) of each fetch, in order of starts."""
    record = Record(web, list(dict.fromkeys(seeds)))
    for seed in record.seeds:
        record.discover(seed, record.url_queue)
    policy = ORDERINGS[ordering](record, **options)
    flying = []
    done = {}
    ready_at = {}
    n_visited = {}
    n_started = 0
    now = zero

    def site_of(page):
        return web.site.get(page, 0)

    def may_leave():
        return record.hot_queue + [u for u in record.url_queue if policy.may_leave(u)]

    def waiting_on(site):
        return [u for u in may_leave() if site_of(u) == site]

    def candidates(queue):
        busy = {fetch.site for fetch in flying}
        return [
            u
            for u in may_leave()
            if u in queue and site_of(u) not in busy and ready_at.get(site_of(u), zero) <= now
        ]

    def next_page():
        on_visit = [
            [u for u in candidates(queue) if n_visited.get(site_of(u), 0) > 0]
            for queue in (record.hot_queue, record.url_queue)
        ]
        for queue in (*on_visit, candidates(record.hot_queue), candidates(record.url_queue)):
            if queue:
                return policy.reorder(queue)[0]
        return None

    def observe(page):
        record.crawled_pages.append(page)
        if topic and topic.is_hot(web.titles.get(page, ""), web.bodies.get(page, "")):
            record.hot.add(page)
        for u in web.links_of(page):
            record.record_link(page, u)
            if u not in record.found_after:
                hot = topic is not None and belongs_in_hot_queue(record, topic, page, u)
                record.discover(u, record.hot_queue if hot else record.url_queue)
                record.parent[u] = page
        policy.observe(page)

    while True:
        for fetch in sorted(flying, key=lambda fetch: fetch.number):
            if fetch.end is None or fetch.end > now:
                continue
            flying.remove(fetch)
            site = fetch.site
            n_known = sum(site_of(u) == site for u in record.discovered)
            n_bytes = roads.n_bytes.get(fetch.page, zero)
            seconds = pause(roads, now - fetch.started, n_bytes, n_known)
            n_visited[site] = n_visited.get(site, 0) + 1
            if n_visited[site] >= roads.k or not waiting_on(site):
                n_visited[site] = 0
                ready_at[site] = max(ready_at.get(site, zero), now + seconds)
            done[fetch.number] = (fetch.page, fetch.started, now, len(done))
            observe(fetch.page)
        for fetch in flying:
            if fetch.end is None and fetch.rate is None and fetch.begins <= now:
                fetch.since, fetch.rate = now, zero
        is_ready = True
        while is_ready and len(flying) < roads.robots and n_started != budget:
            page = next_page()
            is_ready = page is not None
            if page is None:
                break
            (record.hot_queue if page in record.hot_queue else record.url_queue).remove(page)
            site = site_of(page)
            opens = n_visited.get(site, 0) == 0
            latency = roads.latency.get(site, zero) if opens else zero
            n_bytes, speed = roads.n_bytes.get(page, zero), roads.speed.get(site)
            fetch = Fetch(n_started, page, site, now, now + latency, n_bytes)
            if n_bytes == 0 or roads.bandwidth is None:
                fetch.end = now + latency + (n_bytes / speed if speed is not None else 0)
            elif latency == 0:
                fetch.since, fetch.rate = now, zero
            flying.append(fetch)
            n_started += 1
        moving = [fetch for fetch in flying if fetch.rate is not None]
        rates = shares([roads.speed.get(fetch.site) for fetch in moving], roads.bandwidth)
        for fetch, rate in zip(moving, rates, strict=True):
            if rate != fetch.rate:
                fetch.left = max(fetch.left - fetch.rate * (now - fetch.since), zero)
                fetch.since, fetch.rate = now, rate
                fetch.end = now + fetch.left / rate
        times = [fetch.begins if fetch.end is None else fetch.end for fetch in flying]
        if not is_ready:
            busy = {fetch.site for fetch in flying}
            waiting = {site_of(u) for u in may_leave()} - busy
            times += [ready_at[site] for site in waiting]
        if not times:
            return [done[number] for number in sorted(done)]
        now = min(times)
