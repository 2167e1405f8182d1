"""A synthetic web without a network, in which a third of the sites attack the crawl.

Honest sites are trees of pages. They link to each other and occasionally to a hostile site. The
attacks are in `TRICKS`, one function each.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from functools import cache
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import HtmlResponse, Response, TextResponse

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

N_HONEST, N_HOSTILE = 300, 150
SEEDS = [f"http://honest{site}.example/" for site in range(0, N_HONEST, 30)]


class Made(NamedTuple):
    """A response."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = {}


def links(urls: list[str]) -> bytes:
    return "".join(f"<a href='{url}'>{url[-20:]}</a>\n" for url in urls).encode()


def honest_page(site: int, number: int, n_pages: int) -> Made:
    """Return a page of a tree with four branches; every home page has links from elsewhere."""
    if number >= n_pages:
        return Made(b"", 404)
    mixed = (site * 1_000_003 + number * 7_919) * 2_654_435_761 % 2**32
    urls = [f"/{child}" for child in range(4 * number + 1, 4 * number + 5) if child < n_pages]
    urls += ["/", f"/{mixed % n_pages or ''}"]
    urls += [f"http://honest{(site + step) % N_HONEST}.example/" for step in (1, 7, mixed % 97)]
    if mixed % 3 == 0:
        urls.append(f"http://hostile{mixed // 3 % N_HOSTILE}.example/")
    return Made(links(urls))


def calendar(host: str, path: str, victim: str) -> Made:
    """An endless calendar: a page per month, with links to all months on the first."""
    month = int("".join(filter(str.isdigit, path)) or 0)
    return Made(links([f"/?month={month + step}" for step in range(1, 200)]))


def deeper(host: str, path: str, victim: str) -> Made:
    """Paths that grow through relative links."""
    return Made(links([f"{name}{len(path)}/" for name in "abcdefgh"]))


def to_itself(host: str, path: str, victim: str) -> Made:
    """Thousands of links to itself."""
    return Made(links([f"/{path.strip('/')[:200]}{n}x" for n in range(5_000)]))


def junk(host: str, path: str, victim: str) -> Made:
    """Thousands of links to pages that an honest site does not have."""
    tag = zlib.crc32(path.encode()) % 997
    return Made(links([f"http://{victim}/junk{tag}-{n}" for n in range(9_999)] + [f"/{tag}"]))


def long_base(host: str, path: str, victim: str) -> Made:
    """A base of 2,000 characters before 10,000 short links."""
    base = f"<base href='http://{host}/{'x' * 2_000}/'>".encode()
    return Made(base + b"".join(b"<a href=%d>" % n for n in range(10_000)))


def inventor(host: str, path: str, victim: str) -> Made:
    """Thousands of hosts that do not exist."""
    tag = f"{zlib.crc32(path.encode()):08x}"
    return Made(links([f"http://n{n}.{tag}.invented.example/" for n in range(9_000)] + [f"/{tag}"]))


def subdomains(host: str, path: str, victim: str) -> Made:
    """Endless subdomains of its own, each with the same page."""
    tag = f"{zlib.crc32((host + path).encode()):08x}"
    root = host.rpartition("hostile")[2]
    return Made(links([f"http://s{n}{tag}.hostile{root}/" for n in range(200)]))


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(60_000_000), 9)


def bomb(host: str, path: str, victim: str) -> Made:
    """A decompression bomb, behind links to many of them."""
    if path == "/":
        return Made(links([f"/b{n}" for n in range(100)]))
    return Made(_bomb(), headers={"Content-Encoding": "gzip"})


def redirects(host: str, path: str, victim: str) -> Made:
    """Endless redirects, redirect loops, and redirects to private addresses."""
    number = int("".join(filter(str.isdigit, path)) or 0)
    targets = ["http://10.0.0.1 #a", "http://169.254.169.254/latest", f"/r{number + 1}", "/", "//"]
    if path == "/":
        return Made(links([f"/r{n}" for n in range(300)]))
    return Made(b"", 302, {"Location": targets[number % len(targets)]})


@cache
def _slow() -> bytes:
    return b"<b><i><a href=/x>" + b"<font a=1><p>" * 20_000 + links([f"/p{n}" for n in range(50)])


def slow_to_parse(host: str, path: str, victim: str) -> Made:
    """Formatting elements that are never closed."""
    return Made(_slow())


def busy(host: str, path: str, victim: str) -> Made:
    """Busy for a year."""
    if path == "/":
        return Made(links([f"/{n}" for n in range(1_000)]))
    return Made(b"", 503, {"Retry-After": "31536000"})


def sessions(host: str, path: str, victim: str) -> Made:
    """A new session, and parameters in every order, on every page."""
    tag = f"{zlib.crc32(path.encode()):032x}"
    pairs = [f"a={tag[:4]}&b={n}&PHPSESSID={tag}" for n in range(200)]
    return Made(links([f"/list?{pair}" for pair in pairs]))


TRICKS: list[Callable[[str, str, str], Made]] = [
    *(calendar, deeper, to_itself, junk, long_base, inventor, subdomains, bomb, redirects),
    *(slow_to_parse, busy, sessions),
]


@cache
def _many_rules() -> bytes:
    robots = b"".join(b"User-agent: r%d\n" % n for n in range(15_000))
    return robots + b"User-agent: *\n" + b"".join(b"Disallow: /q%d*\n" % n for n in range(20_000))


class Silence:
    """The longest time between event-loop turns, in processor time of its thread and wall time."""

    longest_cpu = longest_wall = 0.0
    n_long = 0
    _before: tuple[float, float] | None = None

    @classmethod
    def tick(cls) -> None:
        """Must be called in every turn in which a fetch begins."""
        now = thread_time(), perf_counter()
        if cls._before is not None:
            cpu, wall = now[0] - cls._before[0], now[1] - cls._before[1]
            cls.longest_cpu = max(cls.longest_cpu, cpu)
            cls.longest_wall = max(cls.longest_wall, wall)
            cls.n_long += cpu > 0.25
        cls._before = now


class HostileWeb:
    """A download handler that generates what it is asked for, and records the order.

    Parameters
    ----------
    crawler
        HOSTILE_WEB_PAGES of its settings is the number of pages of an honest site;
        HOSTILE_WEB_QUIET makes every hostile site answer 404.
    """

    lazy = False
    order: list[str] = []
    n_hostile = 0

    def __init__(self, crawler: Crawler) -> None:
        self._n_pages = crawler.settings.getint("HOSTILE_WEB_PAGES")
        self._is_quiet = crawler.settings.getbool("HOSTILE_WEB_QUIET")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> HostileWeb:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        url = urlsplit(request.url)
        host, path = url.hostname or "", f"{url.path}?{url.query}" if url.query else url.path
        made = self._made(host, path)
        kind = TextResponse if path == "/robots.txt" else HtmlResponse
        headers = {"Content-Type": "text/html; charset=utf-8", **made.headers}
        if "Content-Encoding" in headers:
            kind = Response
        return kind(
            request.url, status=made.status, headers=headers, body=made.body, request=request
        )

    def _made(self, host: str, path: str) -> Made:
        if host.startswith("honest"):
            site = int(host[6:].partition(".")[0])
            if path == "/robots.txt":
                return Made(b"", 404)
            number = path[1:] or "0"
            if number.isdigit() and int(number) < self._n_pages:
                HostileWeb.order.append(f"{host}{path}")
                return honest_page(site, int(number), self._n_pages)
            HostileWeb.n_hostile += 1
            return Made(b"", 404)
        HostileWeb.n_hostile += path != "/robots.txt"
        digits = "".join(filter(str.isdigit, host.rpartition("hostile")[2].partition(".")[0]))
        if self._is_quiet or not digits:
            return Made(b"", 404)
        site = int(digits)
        if path == "/robots.txt":
            if site % 5 == 0:
                return Made(_many_rules())
            return Made(b"", 500 if site % 7 == 0 else 404)
        return TRICKS[site % len(TRICKS)](host, path, f"honest{site % N_HONEST}.example")

    async def close(self) -> None:
        return None
