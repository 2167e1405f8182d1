"""Crawls of broken, slow and bloated servers end, bounded and counted."""

import gzip
import itertools
import resource
import time
import tracemalloc
import zlib
from email.utils import formatdate
from ipaddress import ip_address
from itertools import repeat

import crawls
import pytest
from crawls import Answer, page
from hostile import RawSite, crawl, raw, refused, urls_in
from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from crawlprio.middlewares import BoundedCompression
from crawlprio.web import robots_txt

OBEY = {"ROBOTSTXT_OBEY": True}


@pytest.fixture(autouse=True, params=[crawls.loopback_handler, "own_loopback.OwnLoopback"])
def _each_client(request, monkeypatch):
    monkeypatch.setattr(crawls, "loopback_handler", request.param)


LINKS = b"<title>t</title><a href=/x>x</a><a href=/y>y</a>"


def around(hostile):
    """A site whose page /x is hostile, between a first and a last page."""

    def answer(host, path):
        return hostile() if path == "/x" else raw(LINKS)

    return answer


def drip():
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    for _ in range(30):
        time.sleep(0.5)
        yield b"<"


def endless():
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from repeat(b"10000\r\n" + b"x" * 65536 + b"\r\n", 4_000)


def bomb(name, packed):
    return raw(packed, f"Content-Encoding: {name}")


ZEROS = bytes(40_000_000)
DEFLATED = zlib.compress(ZEROS, 9)


def requested(site, names):
    """Return the paths that were requested from the site of each name, sorted, by name."""
    return {
        name: sorted(path for found, path in site.requests if found == f"{number}.test")
        for number, name in enumerate(names)
    }


def seeds_of(names):
    """Return the home page of a site for each name."""
    return ",".join(f"http://{number}.test/" for number in range(len(names)))


BROKEN = {
    "never answers": lambda: None,
    "drips a byte at a time": drip,
    "closes at once": lambda: b"",
    "no HTTP": lambda: b"\x00\xff garbage\r\n\r\n" * 100,
    "impossible status": lambda: b"HTTP/1.1 999999999999 \r\n\r\n",
    "negative status": lambda: b"HTTP/1.1 -1 x\r\n\r\n",
    "shorter than it says": lambda: raw(b"x", "Content-Length: 99"),
    "negative length": lambda: raw(b"x", "Content-Length: -5"),
    "two lengths": lambda: raw(b"x", "Content-Length: 1", "Content-Length: 9"),
    "bad chunks": lambda: raw(b"zz\r\n", "Transfer-Encoding: chunked"),
    "a header of a megabyte": lambda: raw(b"x", "X-Y: " + "y" * 1_000_000),
    "50,000 headers": lambda: raw(b"x", *["X-Y: y"] * 50_000),
    "5,000 cookies": lambda: raw(b"x", *["Set-Cookie: a=b"] * 5_000),
    "odd type": lambda: raw(b"x", "Content-Type: \xff\xfe; charset=\x00"),
    "not the encoding it says": lambda: raw(b"x", "Content-Encoding: gzip"),
    "unknown encoding": lambda: raw(b"x", "Content-Encoding: magic"),
    "no content": lambda: raw(b"", status="204 No"),
    "binary sent as HTML": lambda: raw(bytes(range(256)) * 4_000),
    "continue for ever": lambda: [b"HTTP/1.1 100 Continue\r\n\r\n"] * 1_000,
}
ENDLESS = ["//0.test/x", "//1.test/x"]
"""The pages of the first two, which would not end by themselves."""


def test_a_broken_response_costs_only_its_own_page():
    hostile = list(BROKEN.values())

    def answer(host, path):
        return hostile[int(host.partition(".")[0])]() if path == "/x" else raw(LINKS)

    with RawSite(answer) as site:
        run = crawl(site, silent=ENDLESS, seeds=seeds_of(BROKEN))
    assert run.reason == "finished"
    assert requested(site, BROKEN) == {name: ["/", "/x", "/y"] for name in BROKEN}
    assert 2 * len(BROKEN) <= run.stats["crawlprio/pages_fetched"] <= 3 * len(BROKEN)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(endless, id="endless"),
        pytest.param(lambda: raw(b"x", "Content-Length: 999999999999"), id="says a terabyte"),
        pytest.param(lambda: bomb("gzip", gzip.compress(ZEROS)), id="gzip"),
        pytest.param(lambda: bomb("deflate", DEFLATED), id="deflate"),
        pytest.param(lambda: bomb("deflate, deflate", zlib.compress(DEFLATED)), id="two layers"),
    ],
)
def test_no_body_exceeds_the_maximum_size_compressed_or_not(hostile):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with RawSite(around(hostile)) as site:
        run = crawl(site)
    assert run.reason == "finished"
    assert refused(run) == {"refused/too-large": 1}
    assert run.stats["crawlprio/failed_because"] == "too large: 1"
    assert 2 <= run.stats["crawlprio/pages_fetched"] <= 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


OF_ANOTHER_SCHEME = [
    *("file:///etc/passwd", "javascript:alert(1)", "data:text/html,<a href=/z>", "ftp://a.test/")
]
NOWHERE = [
    *("http://[", "http://", "", "http://a.test:99999999/", "\x00\x01\x02", "?" + "q" * 100_000),
    *("//", "http://\xff\xfe.test/"),
]


def test_a_redirect_to_nowhere_ends_there():
    locations = OF_ANOTHER_SCHEME + NOWHERE

    def answer(host, path):
        if path != "/x":
            return raw(LINKS)
        location = locations[int(host.partition(".")[0])]
        return raw(b"", f"Location: {location}", status="302 Found")

    with RawSite(answer) as site:
        run = crawl(site, seeds=seeds_of(locations))
    assert run.reason == "finished"
    for location, paths in requested(site, locations).items():
        assert "/y" in paths, location
        assert len(paths) <= 4, location
    redirects = {name: n for name, n in refused(run).items() if "redirect" in name}
    assert redirects == {"refused/redirect-scheme": len(OF_ANOTHER_SCHEME)}


def test_endless_and_circular_redirects_end(tmp_path):
    def answer(host, path):
        if path == "/":
            return page("/loop", "/chain0")
        to = {"/loop": "/pool", "/pool": "/loop"}.get(path) or f"/chain{int(path[6:]) + 1}"
        return Answer(status=301, headers={"Location": to})

    store = tmp_path / "crawl.sqlite"
    run = crawl(({}, answer), {"CRAWLPRIO_STORE": store})
    assert run.reason == "finished"
    assert len(run.site.paths()) == len(set(run.site.paths())) == 3 + 21
    assert refused(run) == {"refused/redirects": 1}
    assert "http://a.test/chain20" in urls_in(store)


ROBOTS = {
    "binary": lambda: raw(bytes(range(256)) * 1_000),
    "HTML": lambda: raw(b"<html><a href=/>"),
    "503": lambda: raw(b"", status="503 Busy"),
    "to itself": lambda: raw(b"", "Location: /robots.txt", status="302 Found"),
    "to a file": lambda: raw(b"", "Location: file:///", status="302 Found"),
    "never answers": lambda: None,
    "endless": endless,
    "9 MB": lambda: raw(b"Disallow: /q\n" * 700_000, "Content-Type: text/plain"),
    "many stars": lambda: raw(b"User-agent: *\nDisallow: /" + b"*a" * 50_000),
    "UTF-16": lambda: raw(b"\xff\xfeU\0s\0e\0r\0"),
}


def test_no_robots_txt_keeps_a_crawl_from_ending():
    robots = list(ROBOTS.values())

    def answer(host, path):
        if path != "/robots.txt":
            return raw(LINKS)
        return robots[int(host.partition(".")[0])]()

    open_anyway = {"CRAWLPRIO_ROBOTS_UNREACHABLE": "allow"}
    with RawSite(answer) as site:
        settings = {**OBEY, **open_anyway, "CRAWLPRIO_MAX_BACK_OFF": 1}
        run = crawl(site, settings, silent=["/robots.txt"], seeds=seeds_of(ROBOTS))
    assert run.reason == "finished"
    for name, paths in requested(site, ROBOTS).items():
        assert sorted(set(paths) - {"/robots.txt"}) == ["/", "/x", "/y"], name
        assert len(paths) <= 3 + 6, name


def test_no_crawl_delay_exceeds_its_bound_or_is_not_a_number():
    delays = ["nan", "-1", "-inf", "1e999", "inf", "31536000", "x", "", "1e-9"]

    def answer(host, path):
        if path != "/robots.txt":
            return raw(LINKS)
        delay = delays[int(host.partition(".")[0])]
        robots = f"User-agent: *\nCrawl-delay: {delay}\nDisallow: /y\n".encode()
        return raw(robots, "Content-Type: text/plain")

    with RawSite(answer) as site:
        run = crawl(site, {**OBEY, "CRAWLPRIO_MAX_CRAWL_DELAY": 0.2}, seeds=seeds_of(delays))
    assert run.reason == "finished"
    assert requested(site, delays) == {each: ["/", "/robots.txt", "/x"] for each in delays}


def test_no_retry_after_exceeds_its_bound_or_is_not_a_number():
    waits = ["nan", "-5", "9" * 400, "1e9", "x", "\xb2", "\xff\xfe", formatdate(0, usegmt=True)]
    waits += [formatdate(253402300799, usegmt=True), "Fri, 31 Dec 9999 23:59:59 -2359"]
    waits += ["Mon, 1 Jan 0001 00:00:00 +2359", "Thu, 99 Foo 2020 99:99:99 GMT"]

    def answer(host, path):
        wait = f"Retry-After: {waits[int(host.partition('.')[0])]}"
        return raw(b"", wait, status="503 Busy") if path == "/x" else raw(LINKS)

    with RawSite(answer) as site:
        run = crawl(site, {"CRAWLPRIO_MAX_BACK_OFF": 0.2}, seeds=seeds_of(waits))
    assert run.reason == "finished"
    assert len(site.requests) == 3 * len(waits)
    assert requested(site, waits) == {each: ["/", "/x", "/y"] for each in waits}


def test_a_closed_site_is_retried_after_a_while(monkeypatch):
    monkeypatch.setattr(robots_txt, "ASK_AGAIN", 0)
    n_asked = itertools.count()

    def answer(host, path):
        if path == "/robots.txt":
            return raw(b"", status="500 Oops" if next(n_asked) == 0 else "404 None")
        return raw(b"<a href=/x>x</a>")

    with RawSite(answer) as site:
        run = crawl(
            site, {**OBEY, "CONCURRENT_REQUESTS": 1}, seeds="http://a.test/,http://a.test/2"
        )
    assert [path for _, path in site.requests] == ["/robots.txt", "/robots.txt", "/2", "/x"]
    assert run.reason == "finished"


def test_a_refused_bomb_is_not_kept_in_memory():
    """The frames of the exception kept each body; a hundred bombs took a gigabyte."""
    crawler = get_crawler(settings_dict={"DOWNLOAD_MAXSIZE": 5_000_000})
    crawler.stats = crawler.stats or StatsCollector(crawler)
    middleware = BoundedCompression.from_crawler(crawler)
    body = gzip.compress(bytes(30_000_000))
    kept = []
    tracemalloc.start()
    for _ in range(10):
        response = Response("http://a.test/", headers={"Content-Encoding": "gzip"}, body=body)
        with pytest.raises(IgnoreRequest) as refusal:
            middleware.process_response(Request("http://a.test/"), response)
        kept.append(refusal.value)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 5_000_000


@pytest.mark.parametrize(
    "page", [b"<p>plain", "<p>f\u00fcr".encode(), "<p>f\u00fcr".encode("cp1252")]
)
def test_the_encoding_of_compressed_bytes_is_never_guessed(monkeypatch, page):
    """Scrapy guesses it for every compressed page whose Content-Type has no charset: 3 ms each."""
    crawler = get_crawler()
    crawler.stats = crawler.stats or StatsCollector(crawler)
    guessed = []
    monkeypatch.setattr(
        TextResponse, "_auto_detect_fun", lambda self, text: guessed.append(text) or "cp1252"
    )
    answers = [
        cls.from_crawler(crawler).process_response(
            Request("http://a.test/"),
            HtmlResponse(
                "http://a.test/",
                headers={"Content-Encoding": "gzip", "Content-Type": "text/html"},
                body=gzip.compress(page),
                flags=["kept"],
                ip_address=ip_address("127.0.0.1"),
                protocol="HTTP/1.1",
            ),
        )
        for cls in (BoundedCompression, HttpCompressionMiddleware)
    ]
    assert guessed == [gzip.compress(page)]
    ours, stock = (
        [type(answer), *(getattr(answer, name) for name in HtmlResponse.attributes)]
        for answer in answers
    )
    assert ours == stock
    assert ours[0] is HtmlResponse
