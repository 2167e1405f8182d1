"""What a run refused by its own settings waits for the next run, and no folder runs code."""

import json
import os
import pickle
import sqlite3
from contextlib import closing

import pytest
from crawls import ADDON, Answer, Site, job_in, page, run_spider
from hostile import BUNDLED
from scrapy import Request, Spider
from stores import change, visited_pages

from crawlprio.errors import StoreError
from crawlprio.live.spider_arguments import is_plain, read_arguments
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

LINKS = [f"http://10.0.0.{n}/x" for n in range(1, 21)]


def crawl(folder, site, **settings):
    everything = {**BUNDLED, **job_in(folder), **settings}
    return run_spider(SiteSpider, everything, site=site, seeds="http://a.test/", follow="web")


def redirecting():
    """A web whose home page has links that redirect to private addresses."""

    def answer(host, path):
        if path.startswith("/to/"):
            return Answer(status=302, headers={"Location": LINKS[int(path[4:])]})
        return None

    home = page(*(f"/to/{n}" for n in range(len(LINKS))))
    return Site({"a.test/": home, "/x": page()}, answer)


def test_pages_that_the_guard_refused_are_fetched_once_their_network_is_granted(tmp_path):
    with redirecting() as site:
        first = crawl(tmp_path, site)
        assert first.stats["crawlprio/refused/private-address"] == len(LINKS)
        n_before = len(site.fetches)
        again = crawl(tmp_path, site)
        assert again.stats["crawlprio/refused/private-address"] == len(LINKS)
        assert len(site.fetches) == n_before
        last = crawl(tmp_path, site, CRAWLPRIO_PRIVATE_NETWORKS="10.0.0.0/8")
        fetched = [f"http://{fetch.host}{fetch.path}" for fetch in site.fetches[n_before:]]
        assert sorted(fetched) == sorted(LINKS)
        assert last.stats["crawlprio/pages_fetched"] == 1 + 2 * len(LINKS)
        n_before = len(site.fetches)
        crawl(tmp_path, site, CRAWLPRIO_PRIVATE_NETWORKS="10.0.0.0/8")
        assert len(site.fetches) == n_before


def test_a_crawl_that_ended_before_it_recorded_anything_is_not_called_another_spiders(tmp_path):
    """As where the disk was full at the very start."""
    with (
        Store.create(tmp_path / "crawl.sqlite") as store,
        pytest.raises(StoreError, match="records nothing yet: its crawl ended before it began"),
    ):
        read_arguments(store)
    assert crawl(tmp_path, {"a.test/": page()}).reason == "finished"
    with Store.open(tmp_path / "crawl.sqlite") as store:
        assert read_arguments(store).arguments["seeds"] == ["http://a.test/"]


def test_pages_that_robots_txt_forbade_are_fetched_under_a_name_that_it_allows(tmp_path):
    robots = Answer("User-agent: bad\nDisallow: /x\n\nUser-agent: good\nDisallow: /y\n")
    pages = {"/": page("/x", "/y", "/z"), "/x": page(), "/y": page(), "/z": page()}
    with Site({"/robots.txt": robots, **pages}) as site:
        crawl(tmp_path, site, ROBOTSTXT_OBEY=True, USER_AGENT="bad")
        assert site.paths() == ["/", "/y", "/z"]
        last = crawl(tmp_path, site, ROBOTSTXT_OBEY=True, USER_AGENT="good")
        assert site.paths() == ["/", "/y", "/z", "/x"]
    assert last.stats.get("crawlprio/failed", 0) == 0


class Posts(Spider):
    """Posts to a private address, with a callback and data of its own."""

    name = "posts"

    async def start(self):
        yield Request("http://a.test/")

    def parse(self, response):
        for url in LINKS[:3]:
            yield Request(url, self.read, method="POST", body="q", cb_kwargs={"n": 7})

    def read(self, response, n):
        yield {"url": response.url, "method": response.request.method, "n": n}


def test_a_url_with_a_password_is_not_kept_but_a_user_agent_with_an_address_is():
    assert is_plain("USER_AGENT", "bot/1 (https://a.example,me@a.example)")
    assert is_plain("CRAWLPRIO_SITEMAPS", "https://a.example/@me.xml")
    assert not is_plain("CRAWLPRIO_SITEMAPS", "https://me:hush@a.example/s.xml")
    assert not is_plain("REDIS_PARAMS", '{"password": "hush"}')
    assert not is_plain("DOWNLOAD_HANDLERS", '{"http": "evil.Handler"}')


def test_a_refused_request_of_another_project_is_kept_whole(tmp_path):
    settings = {**ADDON, **job_in(tmp_path), "CRAWLPRIO_PRIVATE_ADDRESSES": "seeds"}
    with Site({"/": page(), "/x": page()}) as site:
        first = run_spider(Posts, settings, site=site)
        assert (first.items, site.paths()) == ([], ["/"])
        second = run_spider(Posts, {**settings, "CRAWLPRIO_PRIVATE_ADDRESSES": "allow"}, site=site)
    found = sorted(second.items, key=lambda item: str(item["url"]))
    assert found == [{"url": url, "method": "POST", "n": 7} for url in LINKS[:3]]
    assert site.paths() == ["/", "/x", "/x", "/x"]


class _Planted:
    def __init__(self, file):
        self._file = file

    def __reduce__(self):
        return os.mkdir, (str(self._file),)


def test_a_resumed_folder_runs_no_code(tmp_path):
    """Scrapy unpickles `spider.state`, so whoever had packed the folder could run anything."""
    folder, ran = tmp_path / "job", tmp_path / "ran"
    with Site({"/": page("/x", "/y"), "/x": page(), "/y": page()}) as site:
        crawl(folder, site, CLOSESPIDER_PAGECOUNT=1)
        assert not (folder / "spider.state").exists()
        (folder / "spider.state").write_bytes(pickle.dumps(_Planted(ran)))
        crawl(folder, site)
        assert sorted(site.paths()) == ["/", "/x", "/y"]
    assert not ran.exists()


def test_the_store_of_a_shard_of_an_earlier_version_is_read_but_not_resumed(path, tmp_path):
    with Site({"a.test/": page("/1"), "/1": page()}) as site:
        crawl(tmp_path, site)
        with closing(sqlite3.connect(path)) as db, db:
            foreign = "status = 0, error = 'fetched by another shard'"
            db.execute(f"UPDATE visits SET {foreign} WHERE seq = 2")
            db.execute("CREATE TABLE foreign_masses(seq INTEGER PRIMARY KEY, mass REAL NOT NULL)")
            db.execute("CREATE TABLE outbox(shard INTEGER, number INTEGER, message BLOB)")
            facts = {"id": "1", "shards": {"shards": 3, "key": "0", "by_domain": 0}}
            db.execute("INSERT INTO meta VALUES('mailbox', ?)", [json.dumps(facts)])
        assert len(visited_pages(path)) == 2
        run = crawl(tmp_path, site)
        assert run.messages() == [
            f"{path}: this is the store of one of several shards, which crawls do not have any "
            "more; begin a new crawl in another folder. Its pages can still be read."
        ]
        one = {"id": "1", "shards": {"shards": 1, "key": "", "by_domain": 0}}
        for facts in (json.dumps(one), '{"id": "1"}', "[", "[]"):
            assert change(path, "UPDATE meta SET value = ? WHERE key = 'mailbox'", facts) == 1
            assert crawl(tmp_path, site).messages() == []
