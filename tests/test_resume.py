"""A crawl with a job directory resumes where it was, however it ended."""

import logging
import shutil
import sqlite3
from collections import Counter

import pytest
import scrapy
from crawls import ADDON, ONE_AT_A_TIME, Answer, Site, job_in, page, run_spider
from stores import change, query

from crawlprio.frontier import Politeness
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

ROOT = "http://shop.test"


class Catalogue(scrapy.Spider):
    """Requests that are more than links: callbacks, arguments, a body, a priority."""

    name = "catalogue"

    async def start(self):
        yield scrapy.Request(f"{ROOT}/")

    def parse(self, response):
        for n in range(6):
            yield scrapy.Request(
                f"{ROOT}/item/{n}", callback=self.parse_item, cb_kwargs={"n": n}, priority=n % 2
            )
        yield scrapy.FormRequest(
            f"{ROOT}/form", formdata={"q": "word"}, callback=self.parse_form, meta={"of": "form"}
        )

    def parse_item(self, response, n):
        yield {"item": n, "path": response.url.rpartition("/")[2]}

    def parse_form(self, response):
        yield {"form": response.request.body.decode(), "meta": response.meta["of"]}


STARTS = [f"{ROOT}/", "http://other.test/"]


class Links(scrapy.Spider):
    """Follows links; keeps what it has seen in its state."""

    name = "links"

    insists = False

    async def start(self):
        for url in STARTS:
            yield scrapy.Request(url, dont_filter=self.insists)

    def parse(self, response):
        self.state["n_seen"] = self.state.get("n_seen", 0) + 1
        for url in response.css("a::attr(href)").getall():
            yield response.follow(url)


class InsistentLinks(Links):
    """Requests its start pages with dont_filter, and so in every run."""

    insists = True


class ManyStarts(InsistentLinks):
    """Starts at five pages, one of them twice, and follows nothing."""

    async def start(self):
        for n in (0, 1, 2, 3, 3, 4):
            yield scrapy.Request(f"{ROOT}/{n}", dont_filter=True)

    def parse(self, response):
        return iter(())


def run_links(folder, site, spider=Links, **settings):
    every = {**ADDON, **job_in(folder), **settings}
    return run_spider(spider, {"CONCURRENT_REQUESTS_PER_DOMAIN": 1, **every}, site=site)


def forget_the_end(folder):
    """Make a store in the state that a kill leaves."""
    change(folder / "crawl.sqlite", "DELETE FROM meta WHERE key = 'ended_at'")


def ends_and_starts(site, host, n_before):
    """Return when a host's last fetch before a restart ended, and when its next one started."""
    before = [fetch.end for fetch in site.fetches[:n_before] if fetch.host == host]
    after = [fetch.start for fetch in site.fetches[n_before:] if fetch.host == host]
    return max(before), min(after)


@pytest.mark.parametrize("killed", [False, True], ids=["in good order", "killed"])
def test_start_requests_left_waiting_are_sent_once_in_the_next_run(tmp_path, killed):
    with Site({f"/{n}": page() for n in range(5)}) as site:
        once = {"CONCURRENT_REQUESTS": 1, "ORDERING": "breadth-first"}
        run_links(tmp_path, site, ManyStarts, CLOSESPIDER_PAGECOUNT=2, **once)
        n_before = len(site.paths())
        assert 2 <= n_before < 5
        if killed:
            forget_the_end(tmp_path)
        run_links(tmp_path, site, ManyStarts, **once)
        assert sorted(site.paths()[n_before:]) == ["/0", "/1", "/2", "/3", "/3", "/4"]


CHAIN = {"/": page("/0"), **{f"/{n}": page(f"/{n + 1}") for n in range(8)}, "/8": page()}


@pytest.mark.parametrize("killed", [False, True], ids=["in good order", "killed"])
def test_a_sites_delay_survives_a_restart(tmp_path, killed):
    with Site(CHAIN) as site:
        run_links(tmp_path, site, DOWNLOAD_DELAY=0.8, CLOSESPIDER_PAGECOUNT=2)
        n_before = len(site.fetches)
        if killed:
            forget_the_end(tmp_path)
        run_links(tmp_path, site, DOWNLOAD_DELAY=0.8, CLOSESPIDER_PAGECOUNT=2)
        for host in ("shop.test", "other.test"):
            end, start = ends_and_starts(site, host, n_before)
            assert start - end >= 0.8


def test_a_crawl_delay_is_known_before_robots_txt_is_requested_again(tmp_path):
    robots = Answer("User-agent: *\nCrawl-delay: 1.2")
    with Site({**CHAIN, "/robots.txt": robots}) as site:
        run_links(tmp_path, site, ROBOTSTXT_OBEY=True, CLOSESPIDER_PAGECOUNT=1)
        n_before = len(site.fetches)
        with Store.open(tmp_path / "crawl.sqlite", readonly=True) as store:
            learned = [(state.host, state.crawl_delay) for state in store.site_states()]
        assert learned == [("other.test", 1.2), ("shop.test", 1.2)]
        forget_the_end(tmp_path)
        run_links(tmp_path, site, ROBOTSTXT_OBEY=True, CLOSESPIDER_PAGECOUNT=1)
        assert site.fetches[n_before].path == "/robots.txt"
        end, start = ends_and_starts(site, site.fetches[n_before].host, n_before)
        assert start - end >= 1.2


@pytest.mark.parametrize("killed", [False, True], ids=["in good order", "killed"])
def test_a_site_that_asked_for_a_pause_is_left_alone_after_a_restart(tmp_path, killed):
    def answer(host, path):
        is_first = host == "shop.test" and all(fetch.host != host for fetch in site.fetches)
        return Answer(status=503, headers={"Retry-After": "5"}) if is_first else None

    with Site(CHAIN, answer) as site:
        run_links(tmp_path, site, RETRY_ENABLED=True, CLOSESPIDER_PAGECOUNT=2)
        n_before = len(site.fetches)
        refused = [fetch for fetch in site.fetches if fetch.host == "shop.test"]
        assert len(refused) == 1
        if killed:
            forget_the_end(tmp_path)
        run = run_links(tmp_path, site, RETRY_ENABLED=True)
        end, start = ends_and_starts(site, "shop.test", n_before)
        assert start - end >= 4.9
        assert run.reason == "finished"
        assert sorted(f.path for f in site.fetches if f.host == "shop.test") == sorted(
            ["/", *CHAIN]
        )


def test_a_wall_clock_set_back_stops_no_site_for_longer_than_its_pause():
    politeness = Politeness(max_back_off=100.0)
    assert politeness.rest_of_pause(30.0, 1030.0, now=1010.0) == 20.0
    assert politeness.rest_of_pause(30.0, 1030.0, now=-5e6) == 30.0
    assert politeness.rest_of_pause(900.0, 1900.0, now=1000.0) == 100.0
    assert politeness.rest_of_pause(30.0, 1030.0, now=5e9) == 0.0
    slow = Politeness(delay=5.0)
    assert [slow.rest_of_delay(5.0, since) for since in (None, -7e6, 2.0)] == [5.0, 5.0, 3.0]


def test_a_sites_budget_and_dont_filter_survive_a_restart(tmp_path):
    """A page requested with dont_filter is new to the first request without it, as in Scrapy."""
    web = {"/": page("/", *(f"/{n}" for n in range(5))), **{f"/{n}": page("/") for n in range(5)}}

    def crawl(folder, page_count):
        run = run_links(
            folder,
            web,
            InsistentLinks,
            CONCURRENT_REQUESTS=1,
            ORDERING="breadth-first",
            CRAWLPRIO_MAX_PAGES_PER_SITE=4,
            CLOSESPIDER_PAGECOUNT=page_count,
        )
        return [(fetch.host, fetch.path) for fetch in run.site.fetches]

    whole = crawl(tmp_path / "whole", 0)
    assert whole.count(("shop.test", "/")) == 2
    assert len({fetch for fetch in whole if fetch[0] == "shop.test"}) == 4
    starts = [("shop.test", "/"), ("other.test", "/")]
    for first in (1, 2, 4):
        before = crawl(tmp_path / str(first), first)
        resumed = Counter(before + crawl(tmp_path / str(first), 0))
        sent_again = [start for start in starts if start in before]  # as in Scrapy
        assert resumed == Counter(whole + sent_again)


def test_pages_in_flight_come_first_after_a_restart_with_many_at_once(tmp_path):
    """Other keys may have overtaken theirs, but their fetches had begun."""
    n = 30
    web = {"/": page(*(f"/{k}" for k in range(n))), **{f"/{k}": page() for k in range(n)}}
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 4, "ORDERING": "breadth-first"}
    with Site(web) as site:
        run_links(tmp_path, site, CLOSESPIDER_PAGECOUNT=4, **settings)
        n_before = len(site.fetches)
        with sqlite3.connect(tmp_path / "crawl.sqlite") as db:
            waiting = db.execute(
                "SELECT id, url FROM pages WHERE id NOT IN (SELECT page FROM visits) ORDER BY id"
            ).fetchall()
            leased = [waiting[-1], waiting[-7]]
            db.executemany("INSERT INTO leased VALUES(?)", [(page,) for page, _ in leased])
        forget_the_end(tmp_path)
        run_links(tmp_path, site, CONCURRENT_REQUESTS=1, **settings)
        after = sorted(site.fetches[n_before:], key=lambda fetch: fetch.start)
        first = {f"http://{fetch.host}{fetch.path}" for fetch in after[:2]}
        assert first == {url for _, url in leased}
        assert len(site.fetches) == 2 * (n + 1)
    with Store.open(tmp_path / "crawl.sqlite") as store:
        assert store.leased() == []


def test_there_are_never_more_unrecorded_fetches_than_may_be_in_flight(tmp_path):
    """A kill at any moment costs at most those, whichever share a transaction."""
    n, at_once = 120, 4
    web = {"/": page(*(f"/{k}" for k in range(n))), **{f"/{k}": page("/") for k in range(n)}}
    unrecorded = []

    def answer(host, path):
        sql = "SELECT count(*) FROM visits WHERE page >= 0"
        ((n_recorded,),) = query(tmp_path / "crawl.sqlite", sql)
        unrecorded.append(len(unrecorded) + 1 - n_recorded)
        return None

    run = run_links(
        tmp_path, (web, answer), CONCURRENT_REQUESTS=at_once, CONCURRENT_REQUESTS_PER_DOMAIN=at_once
    )
    assert len(unrecorded) == len(run.site.fetches) > 2 * n
    assert max(unrecorded) <= at_once


def test_a_spiders_state_is_restored(tmp_path):
    with Site(CHAIN) as site:
        first = run_links(tmp_path, site, CLOSESPIDER_PAGECOUNT=3)
        seen = first.spider.state["n_seen"]
        second = run_links(tmp_path, site)
    assert seen >= 3
    assert second.spider.state["n_seen"] == len(site.fetches) == 2 * len(CHAIN)


def test_a_copied_job_directory_resumes_in_its_new_place(tmp_path):
    with Site(CHAIN) as site:
        run_links(tmp_path / "here", site, CLOSESPIDER_PAGECOUNT=3)
        n_before = len(site.fetches)
        shutil.copytree(tmp_path / "here", tmp_path / "there")
        run_links(tmp_path / "there", site)
        there = len(site.fetches)
        (tmp_path / "here").rename(tmp_path / "moved")
        run_links(tmp_path / "moved", site)
    assert there == 2 * len(CHAIN)
    assert len(site.fetches) - there == there - n_before


def test_a_site_that_a_seed_redirects_to_is_followed_after_a_kill(tmp_path):
    def answer(host, path):
        if host == "a.test":
            return Answer(status=302, headers={"Location": f"http://b.test{path}"})
        return None

    settings = {**ADDON, **job_in(tmp_path)}
    with Site(CHAIN, answer) as site:
        run_spider(
            SiteSpider, {**settings, "CLOSESPIDER_PAGECOUNT": 3}, site=site, seeds="http://a.test/"
        )
        (tmp_path / "spider.state").unlink()
        forget_the_end(tmp_path)
        run_spider(SiteSpider, settings, site=site, seeds="http://a.test/")
        assert site.paths() == ["/", *CHAIN]


def test_a_job_directory_without_a_store_causes_a_warning(tmp_path):
    run = run_links(tmp_path, CHAIN, CRAWLPRIO_STORE=None)
    (warning,) = run.messages()
    assert "CRAWLPRIO_STORE is None: nothing is recorded" in warning


class Secrets(scrapy.Spider):
    """Sends a password and a cookie that only its own requests have."""

    name = "secrets"

    async def start(self):
        for number in range(4):
            headers = {"Authorization": "Basic secret", "X-Ask": str(number)}
            # Of a higher priority, all are queued at once.
            yield scrapy.Request(
                f"http://a.test/{number}",
                headers=headers,
                cookies={"session": "secret"},
                priority=1,
            )

    def parse(self, response):
        pass


@pytest.mark.parametrize("kept", [None, "X-Ask", ""])
def test_only_the_kept_headers_are_stored_and_restored(tmp_path, kept):
    settings = {
        **ADDON,
        **ONE_AT_A_TIME,
        **job_in(tmp_path),
        "CRAWLPRIO_KEPT_HEADERS": kept,
        "COOKIES_ENABLED": True,
    }
    with Site({}, lambda host, path: page()) as site:
        run_spider(Secrets, {**settings, "CLOSESPIDER_PAGECOUNT": 1}, site=site)
        n_before = len(site.fetches)
        stored = (tmp_path / "crawl.sqlite").read_bytes()
        run_spider(Secrets, settings, site=site)
    assert (b"secret" in stored) == (kept is None)
    later = site.fetches[n_before:]
    assert len(later) == 4 - n_before
    for fetch in later:
        assert fetch.headers.get("x-ask") == (None if kept == "" else fetch.path[1:])
        assert ("authorization" in fetch.headers) == (kept is None)


def test_a_request_whose_callback_is_gone_is_named_and_not_lost(tmp_path):
    class Renamed(scrapy.Spider):
        name = "catalogue"

    settings = {**ADDON, **ONE_AT_A_TIME, **job_in(tmp_path)}
    with Site({}, lambda host, path: page()) as site:
        run_spider(Catalogue, {**settings, "CLOSESPIDER_PAGECOUNT": 3}, site=site)
        refused = run_spider(Renamed, settings, site=site)
        assert refused.reason == "crawlprio_refused"
        (sentence,) = refused.messages(logging.ERROR)
        assert f"<GET {ROOT}/" in sentence
        last = run_spider(Catalogue, settings, site=site)
    assert last.reason == "finished"
    assert len(site.fetches) == 8
