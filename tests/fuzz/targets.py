"""Properties that must hold for any bytes from the web or a file, each as a function of bytes.

`test_hostile_fuzz.py` calls them with bytes from hypothesis, `by_hand.py` with bytes from atheris.
"""

import contextlib
import gzip
import ipaddress
import json
import math
import random
import sqlite3
import tempfile
import zipfile
import zlib
from collections import ChainMap
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urldefrag

import numpy as np
from protego import Protego
from robots_cases import with_whole_products
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.robotstxt import ProtegoRobotParser
from scrapy.settings import Settings
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.python import to_bytes
from scrapy.utils.request import RequestFingerprinter
from stores import read_all
from twisted.web.client import URI

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageTable, Visit
from crawlprio.live.request_json import InvalidRequest, RequestNotStorable, from_json, to_json
from crawlprio.live.requests import Identities
from crawlprio.measure import crawl_models
from crawlprio.measure import crawl_order as order_measures
from crawlprio.middlewares.fetch_gate import _crawl_delay, _retry_after
from crawlprio.middlewares.refusals import connected_host
from crawlprio.orderings.baseline import BreadthFirst
from crawlprio.ranking.coverage import Coverage
from crawlprio.ranking.pagerank import pagerank, partial_pagerank, round_significant
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import crawl_order, timed_crawl
from crawlprio.spiders.site import _says_nofollow
from crawlprio.store import SiteState, Store
from crawlprio.store.graph_files import read_graph
from crawlprio.web.addresses import PrivateAddresses, address_of, is_private, normal_host
from crawlprio.web.budgets import Budgets, pattern_of
from crawlprio.web.html import MAX_ANCHOR_LENGTH, parse_page
from crawlprio.web.robots_txt import decoded, products, rules_for
from crawlprio.web.scope import Scope, registered_domain, without_noise
from crawlprio.web.urls import (
    MAX_LINKS,
    MAX_URL_LENGTH,
    host_of,
    normalise_url,
    without_credentials,
)


def check_url(url):
    """Check that a normalised URL is http(s), plain, short, and usable everywhere in a crawl."""
    assert url.startswith(("http://", "https://"))
    assert url.isascii()
    assert url.isprintable()
    assert " " not in url
    assert len(url) <= MAX_URL_LENGTH
    assert normalise_url(url) == url
    assert without_credentials(url) == url
    assert Request(url).url == url
    host = host_of(url)
    assert host == urlparse_cached(Request(url)).hostname
    assert "@" not in host
    assert normal_host(host) == (host if host.endswith("..") else host.removesuffix(".") or host)
    assert normal_host(normal_host(host)) == normal_host(host)
    address_of(host)
    PrivateAddresses().allows_host(host)
    _identities().of_url(url)
    assert _scope().refuses(url, 1) is not None
    pattern_of(url)
    assert _patterns().refuses(0, url) == ""
    budgets = Budgets(
        lambda site: registered_domain(host), lambda site: 0, per_site=1, per_domain=1
    )
    assert budgets.take(0, url, 0) == ""
    assert budgets.take(0, url, 1) == "domain-budget"
    stripped = without_noise(url)
    assert normalise_url(stripped) == stripped


def page(data):
    """Any bytes can be parsed as a page, under any Content-Type."""
    head, _, body = data.partition(b"\n")
    for many in (body, body * (20_000 // max(len(body), 1))):
        kind = head.decode("latin-1")
        found = parse_page(many, "http://a.test/p/", content_type=kind, want_text=True)
        assert len(found.urls) == len(set(found.urls)) == len(found.anchors) <= MAX_LINKS
        assert parse_page(many, "http://a.test/p/", content_type=kind).urls == found.urls
        assert "http://a.test/p/" not in found.urls
        assert found.text == " ".join(found.text.split())
        for url, anchor in zip(found.urls[:50], found.anchors[:50], strict=True):
            check_url(url)
            check_text(anchor)
        check_text(found.title)


def check_text(text):
    """Check that a stored text is short and has no characters that affect a terminal or a store."""
    assert len(text) <= MAX_ANCHOR_LENGTH
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text)
    text.encode()


def url(data):
    """Any text yields a normalised URL, or none."""
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        for whole in (text, f"http://{text}", f"http://a.test/{text}", f"http://{text}/?{text}"):
            normal = normalise_url(whole)
            if normal is not None:
                check_url(normal)
            without_credentials(whole)
            without_noise(whole)
        normal_host(text)
        address_of(text)
        PrivateAddresses().allows_host(text)


def headers(data):
    """Any Retry-After yields a wait within bounds, or none; any X-Robots-Tag a yes or no."""
    tags = [b"all", *data.split(b"\n")]
    response = Response("http://a.test/", headers={"Retry-After": data, "X-Robots-Tag": tags})
    assert _says_nofollow(response, ("crawlprio",)) in (True, False)
    seconds = _retry_after(response)
    assert seconds is None or seconds >= 0
    pause = Politeness(max_back_off=60.0).back_off(0.0, 1, seconds)
    assert 0 <= pause <= 60


def robots(data):
    """Any robots.txt yields a Crawl-delay that is a number, or none, and a yes or no for a URL."""
    for body in (data, b"User-agent: *\nCrawl-delay: " + data):
        rules, _ = rules_for(decoded(body), "crawlprio")
        parser = ProtegoRobotParser(rules.encode(), None)
        assert parser.allowed("http://a.test/x", "crawlprio") in (True, False)
        seconds = _crawl_delay(parser, "crawlprio")
        if seconds is not None and not math.isnan(seconds):
            obeyed = Politeness(max_crawl_delay=60.0).obeyed_crawl_delay(seconds)
            assert 0 <= obeyed <= 60


def robot_rules(data):
    """The reduced robots.txt gives the same answers as Protego on all lines that say something."""
    agent, _, body = data.partition(b"\n")
    name = agent.decode("utf-8", "replace")
    rules, _ = rules_for(decoded(body), name)
    whole = Protego.parse(with_whole_products(decoded(body), products(name)))
    reduced = Protego.parse(rules)
    for path in ("/", "/x", "/a/b?c=%41", "/index.html"):
        url = f"http://a.test{path}"
        assert reduced.can_fetch(url, name) == whole.can_fetch(url, name)
    assert (reduced.crawl_delay(name) or 0) >= (whole.crawl_delay(name) or 0)


def redirect(data):
    """Whatever a Location header says, the host that is checked is the one connected to."""
    for location in (data, b"http://10.0.0.1" + data, b"http://" + data + b"10.0.0.1/"):
        response = Response("http://a.test/", status=302, headers={"Location": location})
        try:
            asked = _redirects().process_response(Request("http://a.test/"), response)
        except (ValueError, IgnoreRequest):
            continue
        if not isinstance(asked, Request):
            continue
        judged = connected_host(asked)
        try:
            sent = URI.fromBytes(to_bytes(urldefrag(asked.url)[0], encoding="ascii")).host
        except UnicodeError:
            continue  # the handler fails in the same way
        connected = sent.rpartition(b"@")[2].decode("latin-1")
        if not judged:
            continue
        assert normal_host(judged) == normal_host(connected), (judged, connected)
        if PrivateAddresses().allows_host(judged):
            with contextlib.suppress(ValueError):
                assert not is_private(ipaddress.ip_address(connected.strip("[]")))


def graph(data):
    """Any bytes are a graph of any kind, or are refused with one of our errors.

    The first byte chooses the kind. For a WebGraph, the first line holds the properties, separated
    by `;`.
    """
    if not data:
        return
    kinds = ("npz", "txt", "txt.gz", "csv", "jsonl", "graphml", "graph", "parquet", "npz", "txt.gz")
    kind, body = kinds[data[0] % len(kinds)], data[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{kind}"
        if kind == "graph":
            properties, _, body = body.partition(b"\n")
            path.with_suffix(".properties").write_bytes(properties.replace(b";", b"\n"))
        elif data[0] >= 128 and kind == "txt.gz":
            body = gzip.compress(body)
        elif data[0] >= 128 and kind == "npz":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("indptr.npy", body)
                archive.writestr("indices.npy", body[::-1])
            body = path.read_bytes()
        path.write_bytes(body)
        try:
            found = read_graph(path, 10_000_000)
        except CrawlprioError as error:
            check_sentence(error)
            return
        if 0 < found.n_pages < 10_000:
            assert abs(pagerank(found.indptr, found.indices).sum() - 1.0) < 1e-6


def rows(data):
    """Any numbers are rows of a graph, or are refused with one of our errors."""
    numbers = np.frombuffer(data[: len(data) // 8 * 8], dtype=">i8").astype(np.int64)
    small = np.frombuffer(data, dtype=np.int8).astype(np.int64)
    for values in (numbers, small):
        for cut in (1, len(values) // 2, max(len(values) - 1, 0)):
            for solve in (
                lambda a, b: pagerank(a, b),
                lambda a, b: partial_pagerank(a, a[::-1], b),
            ):
                try:
                    solve(values[:cut], values[cut:])
                except CrawlprioError as error:
                    check_sentence(error)


def arrays(data):
    """Any arrays are taken by the public functions on graphs, or refused with one of our errors."""
    source = random.Random(data)
    graph = LinkGraph(np.array([0, 2, 3, 5, 5, 6]), np.array([1, 2, 0, 3, 4, 0]))
    rank, seen = np.full(5, 0.2), np.ones(5, dtype=np.bool_)
    given = ChainMap(*map(vars, (order_measures, crawl_models)))
    calls = [
        lambda a, b: LinkGraph(a, b),
        lambda a, b: LinkGraph.cleaned(np.array([0, 1, 1]), a, site=b),
        lambda a, b: pagerank(a, b),
        lambda a, b: partial_pagerank(a, b, graph.indices),
        lambda a, b: partial_pagerank(graph.indptr[:-1], a, b),
        lambda a, _: round_significant(a),
        lambda a, _: Coverage().add_seeds(a),
        lambda a, b: Coverage().observe(source.choice([-1, 0, 3, 2**40]), a),
        lambda a, b: given["cumulative_pagerank"](a, b, None),
        lambda a, b: given["cumulative_pagerank"](a, rank, b),
        lambda a, b: given["best_order"](a, b),
        lambda a, b: given["kendall_tau"](a, b),
        lambda a, _: given["curve"](a),
        lambda a, _: given["depth_from_seeds"](graph, a),
        lambda a, b: given["scaled_to_mean_one"](a, b),
        lambda a, b: given["mean_importance_by_slice"](a, rank, b),
        lambda a, b: given["mean_slice_of_top"]([0, 1], a, b),
        lambda a, b: given["cumulative_by_time"](a, b, rank, seen),
        lambda a, b: given["crawl_and_stop"](a, b),
        lambda a, b: given["crawl_and_stop_with_threshold"](a, b, 0.1),
        lambda a, b: given["top_threshold"](a, 0.5, b),
        lambda a, _: given["pagerank_seen"](graph, a),
        lambda a, b: given["active_robots"](a, b),
        lambda a, b: crawl_order(graph, a, BreadthFirst(), truth=b),
        lambda a, b: timed_crawl(graph, [0], BreadthFirst(), Network(latency=a, page_bytes=b)),
    ]
    for call in calls:
        try:
            call(_values(source), _values(source))
        except CrawlprioError as error:
            check_sentence(error)


def _values(source):
    """Arrays that fit a graph of five pages, and such as do not."""
    some = [source.randrange(-2, 7) for _ in range(source.randrange(7))]
    return source.choice(
        [
            *(some, np.array(some, dtype=np.int32)),
            *([], [0, 1, 2], [0, 2, 3, 5, 5, 6], np.zeros(5), np.ones(5, dtype=np.bool_)),
            *(source.sample(range(5), 5), [source.random() for _ in range(5)], [True] * 4),
            *([2**31], [-(2**31)], [2**40], [2**63], [-1], [0.5], [math.nan] * 5, [math.inf]),
            *("abc", ["0", "1"], b"xyz", 3, np.array(1), [[0, 1], [1, 0]], [[0], [0, 1]]),
            *([None], {"a": 1}, object(), np.zeros(5, dtype=[("x", "f8")]), np.zeros(0)),
            *(np.arange(10)[::2], np.array([1 + 2j]), np.array(["2020-01-01"], dtype="M8[D]")),
        ]
    )


def store(data):
    """A store with modified bytes is read, or refused with one of our errors."""
    whole = bytearray(_stored())
    if len(data) >= 4:
        at = int.from_bytes(data[:4], "big") % len(whole)
        whole[at : at + len(data) - 4] = data[4:]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.sqlite"
        path.write_bytes(whole)
        check_store(path)


def schema(data):
    """A store with any definition of one of its tables is read, or refused with one of our errors.

    The first byte chooses the table; the second decides whether the rest replaces its definition or
    is appended to it.
    """
    if len(data) < 3:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.sqlite"
        path.write_bytes(_stored())
        text = data[2:].decode("utf-8", "replace").replace("\0", " ")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema ORDER BY 1")]
            db.execute("PRAGMA writable_schema = ON")
            before = "" if data[1] % 2 else "sql || "
            db.execute(
                f"UPDATE sqlite_schema SET sql = {before}? WHERE name = ?",
                (text, names[data[0] % len(names)]),
            )
        check_store(path)


def row(data):
    """A store with any value in one column of a table is read, or refused with one of our errors.

    The first byte chooses the column, the second the type of the value.
    """
    if len(data) < 2:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.sqlite"
        path.write_bytes(_stored())
        values = [
            data[2:],
            data[2:].decode("utf-8", "replace"),
            int.from_bytes(data[2:10], "big", signed=True),
            zlib.compress(data[2:]),
            json.dumps([data[2:].decode("latin-1")]),
        ]
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            columns = db.execute(
                "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c"
                " WHERE m.type = 'table' ORDER BY 1, 2"
            ).fetchall()
            table, column = columns[data[0] % len(columns)]
            with contextlib.suppress(sqlite3.Error):
                db.execute(
                    f"UPDATE {table} SET {column} = ?"
                    f" WHERE rowid = (SELECT max(rowid) FROM {table})",
                    (values[data[1] % len(values)],),
                )
        check_store(path)


def check_store(path):
    """Everything that reads a store either reads it whole or refuses it in one sentence."""
    for readonly in (True, False):
        try:
            read_all(path, readonly=readonly)
        except CrawlprioError as error:
            check_sentence(error)


def check_sentence(error):
    """Check that one of our errors is a single sentence without effect on a terminal."""
    assert str(error).isprintable()
    assert len(str(error)) < 2000


def request(data):
    """Any bytes are a stored request, or are refused with one of our errors."""
    for stored in (data, b'{"url":"http://a.test/","meta":{"a":' + data + b"}}"):
        try:
            made = from_json(stored, _spider())
        except InvalidRequest as error:
            check_sentence(error)
            continue
        try:
            again = from_json(to_json(made, _spider()), _spider())
        except RequestNotStorable:
            continue
        for name in made.attributes:
            assert repr(getattr(again, name)) == repr(getattr(made, name))


TARGETS = {
    function.__name__: function
    for function in (
        *(page, url, headers, robots, robot_rules, redirect, graph, rows),
        *(arrays, store, schema, row, request),
    )
}


@cache
def _redirects():
    redirects = RedirectMiddleware(Settings())
    redirects.crawler = SimpleNamespace(spider=None)
    return redirects


@cache
def _identities():
    fingerprinter = SimpleNamespace(request_fingerprinter=RequestFingerprinter())
    return Identities(fingerprinter)


class _Spider(Spider):
    name = "fuzz"

    def parse_item(self, response): ...


@cache
def _spider():
    return _Spider()


@cache
def _scope():
    return Scope(["http://a.test/"], "domain", private=PrivateAddresses())


@cache
def _patterns():
    """Pattern budgets; their table takes longer to build than everything else about a URL."""
    return Budgets(lambda site: "a.test", lambda site: 0, per_pattern=1)


@cache
def _stored():
    """Return a small store as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.sqlite"
        pages = PageTable()
        for number in range(20):
            name = f"http://a{number % 3}.test/{number}"
            pages.add(name, name, pages.site(f"a{number % 3}.test"))
        with Store.create(path) as opened:
            pages.alias("also", 1)
            opened.record_pages(pages, [0])
            opened.keep_site_state(SiteState("a1.test", 2.0, 1, 4.0, 1e9))
            opened.pending.unfiltered.set(5)
            for number in range(19):
                targets = np.array([number + 1], dtype=np.int32)
                visit = Visit(
                    number,
                    targets,
                    anchors=["next"],
                    title="t",
                    text="text",
                    outside=[("http://b.test/", "b")],
                    fetched_at=1.0,
                    status=302 if number < 3 else 200,
                )
                opened.pending.leased.set(number + 1)
                opened.pending.put_request(number + 1, number, b'{"url":"http://b.test/"}')
                opened.record(visit, pages)
        # The content of the journal belongs to the file, which is read without it.
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return path.read_bytes()
