"""CRAWLPRIO_ITEMS: each item is stored once, with the visit of its page, after any kills."""

import asyncio
import json
import os
import random
import signal
import textwrap
from collections import Counter
from dataclasses import dataclass

import pytest
from commands import run_command
from crawls import ADDON, Answer, Site, killed_once, page, run_spider
from forked import run_forked
from scrapy import Request, Spider
from stores import change, query

from crawlprio import LinkPairs, read
from crawlprio.errors import StoreError
from crawlprio.store import Store

N_KILLS = int(os.environ.get("CRAWLPRIO_ITEM_KILLS", "6"))
SEED = int(os.environ.get("CRAWLPRIO_KILLS_SEED", "20261121"))
N_PAGES = 400

WEB = {"/": page("/1")}
for number in range(1, N_PAGES + 1):
    WEB[f"/{number}"] = page(*(f"/{n}" for n in (2 * number, 2 * number + 1) if n <= N_PAGES))
KEEPS = {**ADDON, "CRAWLPRIO_ITEMS": True, "CRAWLPRIO_STORE": "crawl.sqlite"}


def kept(store):
    with Store.open(store, readonly=True) as opened:
        return [json.loads(item) for _, item in opened.kept_items()]


@dataclass
class Product:
    name: str
    price: float


class Mixed(Spider):
    """Yields items of several kinds, before, between and after its requests."""

    name = "mixed"

    async def start(self):
        yield {"from": "start"}
        yield Request("http://a.test/")

    async def parse(self, response):
        yield {"url": response.url, "n": 0}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
        await asyncio.sleep(0.001)
        yield Product("été \ud800", 1.5)
        if response.url.endswith("/3"):
            raise ValueError("after two items")


def test_items_are_stored_with_the_page_they_come_from(tmp_path):
    path = tmp_path / "crawl.sqlite"
    web = {"/": page("/2", "/3"), "/2": page(), "/3": page()}
    run = run_spider(Mixed, {**KEEPS, "CRAWLPRIO_STORE": str(path)}, site=web)
    assert run.stats["crawlprio/items_kept"] == len(run.items) == 7
    fields = "url, json_extract(item, '$.n'), json_extract(item, '$.name')"
    rows = query(path, f"SELECT {fields} FROM items JOIN pages ON pages.id = page")
    found = sorted(rows, key=str)
    starts = query(path, "SELECT item FROM items WHERE page = -1")
    names = [f"http://a.test/{path}" for path in ("", "2", "3")]
    products = [(name, None, "été \ufffd") for name in names]
    assert found == sorted([*products, *((name, 0, None) for name in names)], key=str)
    assert [json.loads(item) for (item,) in starts] == [{"from": "start"}]


def test_what_json_cannot_hold_is_reported_once_and_counted(tmp_path):
    class Odd(Spider):
        name = "odd"
        start_urls = ("http://a.test/1", "http://a.test/2")

        def parse(self, response):
            yield {"url": response.url, "odd": object()}
            yield {"url": response.url}

    settings = {**KEEPS, "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite")}
    run = run_spider(Odd, settings, site={"/1": page(), "/2": page()})
    assert run.stats["crawlprio/items_not_kept"] == 2
    assert len([text for text in run.messages() if "cannot be stored as JSON" in text]) == 1
    assert len(kept(tmp_path / "crawl.sqlite")) == 2


def test_bodies_are_stored_with_the_visits_of_their_pages(path):
    web = {"/": page("/2", "/missing"), "/2": page("/")}
    settings = {**ADDON, "CRAWLPRIO_BODIES": True, "CRAWLPRIO_STORE": str(path)}
    run_spider(Mixed, settings, site=web)
    with Store.open(path, readonly=True) as store:
        found = {url: body.decode() for _, url, status, body in store.bodies() if status == 200}
    assert found == {f"http://a.test{name}": answer.body for name, answer in web.items()}
    table = [row for row in read(path).bodies.arrow().to_pylist() if row["status"] == 200]
    assert {row["url"]: row["body"].decode() for row in table} == found
    change(path, "UPDATE bodies SET body = x'00'")
    with (
        Store.open(path, readonly=True) as store,
        pytest.raises(StoreError, match="a body that was not stored by crawlprio"),
    ):
        next(store.bodies())


def test_bodies_need_a_store():
    run = run_spider(Mixed, {**ADDON, "CRAWLPRIO_BODIES": True, "CRAWLPRIO_STORE": None})
    assert "there is no store to keep bodies in" in "".join(run.messages())


def test_items_besides_link_pairs_are_in_the_visit_of_the_pairs(path):
    """A page is not done when its links are known: later items belong to it too."""
    at_visit = []

    class Pairs(Spider):
        name = "pairs"
        start_urls = ("http://a.test/",)

        async def parse(self, response):
            links = [response.urljoin(link) for link in response.css("a::attr(href)").getall()]
            yield LinkPairs(response.url, links)
            await asyncio.sleep(0.01)
            yield {"url": response.url}

        def closed(self, reason):
            counts = "SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM visits)"
            at_visit.extend(query(path, counts))

    with Site({"/": page("/2", "/3"), "/2": page(), "/3": page()}) as site:
        run_spider(Pairs, {**KEEPS, "CRAWLPRIO_STORE": str(path)}, site=site)
    assert len(kept(path)) == 3
    assert {item["url"] for item in kept(path)} == {f"http://a.test/{n}" for n in ("", "2", "3")}
    with Store.open(path, readonly=True) as store:
        assert store.link_graph().n_links == 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"CRAWLPRIO_STORE": None}, "CRAWLPRIO_ITEMS is on, but CRAWLPRIO_STORE is None"),
        ({"SCHEDULER": "scrapy.core.scheduler.Scheduler"}, "SCHEDULER is not crawlprio's"),
    ],
)
def test_settings_that_would_break_the_promise_are_refused(settings, told, tmp_path):
    every = {**KEEPS, "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"), **settings}
    run = run_spider(Mixed, every, site=WEB)
    assert any(told in text for text in run.messages())
    assert run.site.paths() == []


def test_export_writes_one_item_per_line(path, tmp_path, capsys):
    run_spider(Mixed, {**KEEPS, "CRAWLPRIO_STORE": str(path)}, site={"/": page()})
    assert run_command("items", "export", str(path), str(tmp_path / "items.jsonl")) == 0
    lines = (tmp_path / "items.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == kept(path)
    assert f"{len(lines)} items" in capsys.readouterr().out


KILLED = """
import asyncio, sys
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess

class Killed(Spider):
    name = "killed"

    async def start(self):
        from scrapy import Request
        yield Request("http://a.test/")

    async def parse(self, response):
        yield {"url": response.url, "n": 0}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
        await asyncio.sleep(0.003)
        yield {"url": response.url, "n": 1}

handler = "crawlprio.demo.handler.LoopbackHandler"
process = AsyncCrawlerProcess({
    "ADDONS": {"crawlprio.Addon": 500}, "JOBDIR": "job", "CRAWLPRIO_ITEMS": True,
    "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}, "CRAWLPRIO_LOOPBACK": sys.argv[1],
    "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "DOWNLOAD_DELAY": 0,
})
process.crawl(Killed)
process.start()
"""

START_URLS = """
import os, signal, sys
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess

class Started(Spider):
    name = "started"
    n_parsed = 0

    async def start(self):
        yield {"from": "start"}
        for url in ("http://a.test/old", "http://a.test/2"):
            yield Request(url, dont_filter=True)

    def parse(self, response):
        self.n_parsed += 1
        yield {"url": response.url}
        if response.url == "http://a.test/1":
            yield response.follow("/more", dont_filter=True)
        else:
            yield response.follow("/3")
        if self.n_parsed == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

handler = "crawlprio.demo.handler.LoopbackHandler"
process = AsyncCrawlerProcess({
    "ADDONS": {"crawlprio.Addon": 500}, "JOBDIR": "job", "CRAWLPRIO_ITEMS": True,
    "DOWNLOAD_HANDLERS": {"http": handler, "https": handler}, "CRAWLPRIO_LOOPBACK": sys.argv[1],
    "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS": 1, "ROBOTSTXT_OBEY": False,
})
process.crawl(Started)
process.start()
"""


def test_what_start_yields_again_in_each_run_leaves_each_item_once(tmp_path):
    """Start requests with dont_filter are sent again, and so is what follows from them."""
    script = tmp_path / "started.py"
    script.write_text(START_URLS)
    web = {name: page() for name in ("/1", "/2", "/3", "/more")}
    web["/old"] = Answer("", 302, {"Location": "/1"})
    with Site(web) as site:
        for at in (1, 2, 2, 3, 0, 0):
            ended = run_forked(script, [site.address, at], tmp_path)
            assert (ended.returncode, ended.stderr) == (0 if at == 0 else -signal.SIGKILL, "")
    found = Counter(item.get("url", "start") for item in kept(tmp_path / "job" / "crawl.sqlite"))
    assert found == {"start": 1} | {f"http://a.test/{n}": 1 for n in ("1", "2", "3", "more")}
    assert site.paths().count("/2") > 1


def test_a_crawl_that_is_killed_again_and_again_has_every_item_once(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    store = tmp_path / "job" / "crawl.sqlite"
    choose = random.Random(SEED)
    print("seed", SEED)
    with Site(WEB) as site:
        for _ in range(N_KILLS):
            killed_once(script, [site.address], store, choose.randint(1, 12), tmp_path)
        ended = run_forked(script, [site.address], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = Counter((item["url"], item["n"]) for item in kept(store))
    expected = {(f"http://a.test{path}", n) for path in WEB for n in (0, 1)}
    assert set(found) == expected
    assert set(found.values()) == {1}
