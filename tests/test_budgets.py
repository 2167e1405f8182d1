"""Budgets: what a site, a domain and a pattern may use, and how much of it others may claim."""

import random
import tracemalloc
from zlib import crc32

import pytest
from crawls import BREADTH_FIRST, Site, job_in, page, run_spider
from hostile import crawl, refused
from scrapy import Request, Spider

from crawlprio.items import LinkPairs
from crawlprio.store import Store
from crawlprio.web.budgets import NO_SITE, Budgets, pattern_of
from crawlprio.web.scope import registered_domain

HOSTS = ["victim.test", "evil.test", "www.victim.test"]
VICTIM, EVIL, WWW = range(3)


def domain_of(site):
    """Return the registered domain of a site; any beyond `HOSTS` has one of its own."""
    return registered_domain(HOSTS[site] if site < len(HOSTS) else f"h{site}.test")


class Web:
    """Budgets, and the pages that they admitted."""

    def __init__(self, **limits):
        self.sites = []
        self.urls = []
        self.budgets = Budgets(domain_of, self.sites.count, **limits)

    def take(self, path, site=VICTIM, source=NO_SITE):
        url = f"http://{HOSTS[site]}{path}"
        refusal = self.budgets.take(site, url, len(self.sites), source)
        if not refusal:
            self.sites.append(site)
            self.urls.append(url)
        return refusal

    def succeed(self, number):
        self.budgets.fetched(number, self.sites[number])


def evil_page(web):
    web.budgets.add(EVIL, "http://evil.test/")
    web.sites.append(EVIL)
    web.urls.append("http://evil.test/")


@pytest.mark.parametrize("limit", ["per_site", "per_domain", "per_pattern"])
def test_other_domains_claim_at_most_a_quarter_of_a_budget(limit):
    web = Web(**{limit: 20})
    evil_page(web)
    claims = [web.take(f"/{n}", VICTIM, EVIL) for n in range(10)]
    assert claims == [""] * 5 + ["claim-budget"] * 5
    own = [web.take(f"/{n}", VICTIM, VICTIM) for n in range(20, 40)]
    assert own == [""] * 15 + [f"{limit.removeprefix('per_')}-budget"] * 5


def test_a_successfully_fetched_claim_no_longer_counts_as_one():
    web = Web(per_site=8, per_pattern=8)
    evil_page(web)
    assert [web.take(f"/{n}", VICTIM, EVIL) for n in range(3)] == ["", "", "claim-budget"]
    web.succeed(1)
    web.succeed(1)
    assert [web.take(f"/{n}", VICTIM, EVIL) for n in range(3, 5)] == ["", "claim-budget"]


def test_sites_of_one_domain_claim_nothing_of_each_other():
    web = Web(per_site=8)
    assert web.take("/") == ""
    assert [web.take(f"/{n}", WWW, VICTIM) for n in range(6)] == [""] * 6


def test_replayed_pages_are_the_same_claims_as_before():
    limits = {"per_site": 8, "per_domain": 12, "per_pattern": 8}
    web = Web(**limits)
    evil_page(web)
    for n in range(2):
        assert web.take(f"/{n}", VICTIM, EVIL) == ""
    web.succeed(1)
    again = Web(**limits)
    again.budgets.replay(EVIL, [(1, VICTIM), (2, VICTIM)])
    again.budgets.replay_fetched(1, VICTIM)
    again.budgets.add_all(zip(web.sites, web.urls, strict=True))
    again.sites[:], again.urls[:] = web.sites, web.urls
    for one in (web, again):
        assert [one.take(f"/{n}", VICTIM, EVIL) for n in range(5, 8)] == ["", *["claim-budget"] * 2]
        one.succeed(2)
        assert one.take("/9", VICTIM, EVIL) == ""


def test_nobody_can_choose_whose_pattern_shares_their_slot():
    """With CRC-32, a page could use up another site's pattern budget by links to itself."""
    seed = 20261122
    print("seed", seed)
    source = random.Random(seed)
    seen = {}
    pairs = []
    while len(pairs) < 3:
        url = f"http://x.test/{source.getrandbits(64):x}".translate(
            str.maketrans("", "", "0123456789")
        )
        url += "?n=1"
        other = seen.setdefault(crc32(pattern_of(url)) % 2**20, url)
        if pattern_of(other) != pattern_of(url):
            pairs.append((other, url))
    for first, second in pairs:
        budgets = Budgets(domain_of, lambda site: 0, per_pattern=1)
        assert budgets.take(0, first, 0) == ""
        assert budgets.refuses(0, first) == "pattern-budget"
        assert budgets.refuses(0, second) == ""


def junk_web(host, path):
    """A site of 60 pages in a chain, and a site that links to pages the first does not have."""
    if host == "evil.test":
        junk = [f"http://victim.test/junk/{path[1:] or 0}-{n}" for n in range(150)]
        return page(*junk, "/1", "/2", "http://victim.test/0")
    number = path[1:]
    if host == "victim.test" and number.isdigit() and int(number) < 60:
        return page(*(f"/{int(number) + 1}" for _ in range(int(number) < 59)))
    return None


@pytest.mark.parametrize("ordering", ["breadth-first", "opic"])
def test_junk_links_from_another_site_do_not_keep_a_site_from_being_fetched(ordering):
    """Once, none of 60 real pages was fetched when a page of another site claimed them all."""
    run = crawl(
        ({}, junk_web),
        {
            "CRAWLPRIO_MAX_PAGES_PER_SITE": 200,
            "CRAWLPRIO_MAX_STATIC_DEPTH": None,
            "ORDERING": ordering,
        },
        seeds="http://evil.test/,http://victim.test/0",
        follow="web",
    )
    fetched = [fetch.path for fetch in run.site.fetches if fetch.host == "victim.test"]
    assert [path for path in fetched if path[1:].isdigit()] == [f"/{n}" for n in range(60)]
    assert len(fetched) == 60 + 50
    assert refused(run)["refused/claim-budget"] == 450 - 50


def test_claims_survive_a_restart(tmp_path):
    settings = {
        "CRAWLPRIO_MAX_PAGES_PER_SITE": 40,
        **job_in(tmp_path / "job"),
        "CONCURRENT_REQUESTS": 1,
    }
    seeds = "http://evil.test/,http://victim.test/0"
    counts = []
    for most in (2, 0):
        with Site({}, junk_web) as site:
            crawl(site, {**settings, "CLOSESPIDER_PAGECOUNT": most}, seeds=seeds, follow="web")
        with Store.open(tmp_path / "job" / "crawl.sqlite", readonly=True) as store:
            urls = list(store.page_urls())
            counts.append(sum("/junk/" in url for url in urls))
    assert counts == [10, 10]


@pytest.mark.parametrize(("most", "known"), [(1_000_000, 1_001), (80, 21), (None, 3_001)])
def test_sites_added_by_one_page_and_by_all_pages_are_bounded(most, known):
    """10,000 invented hosts per page took half a kilobyte each, without a bound."""
    hosts = [f"http://h{n}.test/" for n in range(3_000)]
    with Site({}, lambda host, path: page(*hosts) if host == "a.test" else None) as site:
        run = crawl(site, {"CRAWLPRIO_MAX_SITES": most, "CLOSESPIDER_PAGECOUNT": 2}, follow="web")
    assert run.stats["crawlprio/sites_known"] == known
    assert refused(run).get("refused/sites", 0) == 3_001 - known


def test_no_domain_leads_to_more_than_a_quarter_of_all_sites():
    """Otherwise a domain with one page per thousand sites would leave none to the others."""
    web = Budgets(domain_of, lambda site: 0, max_sites=40)
    evil = [web.take_site(n, 3 + n, EVIL) for n in range(20)]
    assert evil == [True] * 10 + [False] * 10
    others = [web.take_site(n, 13 + n, WWW) for n in range(20)]
    assert others == [True] * 10 + [False] * 10
    assert not web.take_site(0, 40, 3)


def test_the_sites_a_domain_led_to_are_counted_again_after_a_restart():
    again = Budgets(domain_of, lambda site: 0, max_sites=40)
    again.replay(EVIL, [*((3 + n, 3 + n) for n in range(6)), (9, 3)])
    assert [again.take_site(n, 9 + n, EVIL) for n in range(6)] == [True] * 4 + [False] * 2


def test_a_domain_shows_a_few_thousand_sites_until_some_of_them_answer():
    """Invented hosts were a quarter of a million sites, at half a kilobyte each."""
    limit = 2_000
    before = Budgets(domain_of, lambda site: 0, max_sites=64 * limit)
    shown = [before.take_site(n % 900, 3 + n, EVIL) for n in range(limit + 5)]
    assert shown == [True] * limit + [False] * 5
    assert before.take_site(1, 3 + limit, WWW)

    resumed = Budgets(domain_of, lambda site: 0, max_sites=64 * limit)
    resumed.replay(EVIL, [(n, n) for n in range(3, 3 + limit)])
    resumed.replay_fetched(10, 10)
    before.fetched(10, 10)
    for web in (before, resumed):
        web.fetched(11, 11)
        web.fetched(11, 11)
        web.fetched(0, VICTIM)
        further = [web.take_site(1, 4 + limit + n, EVIL) for n in range(3)]
        assert further == [True, True, False]


def test_few_of_the_links_that_a_budget_refuses_are_recorded(tmp_path):
    """Pages of thousands of links that nobody follows filled the disk."""
    links = [f"http://a.test/page{n:06}{'x' * 80}" for n in range(3_000)]
    settings = {"CRAWLPRIO_MAX_PAGES_PER_PATTERN": 10, **job_in(tmp_path / "job")}
    run = crawl(({}, lambda host, path: page(*links) if path == "/" else page()), settings)
    assert refused(run)["refused/pattern-budget"] == 2_990
    with Store.open(tmp_path / "job" / "crawl.sqlite", readonly=True) as store:
        visit = next(iter(store.visits()))
    assert len(visit.targets) == 10
    recorded = [url for url, _ in visit.outside]
    assert recorded == links[10 : 10 + len(recorded)]
    assert len(recorded) == 4_096 // len("".join(visit.outside[0]))


def test_a_site_takes_few_bytes_of_the_budgets():
    """A domain's name and four dictionary entries once took 205 bytes per invented site."""
    budgets = Budgets(domain_of, lambda site: 0, per_site=999, per_domain=999)
    budgets.add(0, "http://a.test/")
    tracemalloc.start()
    n_sites = 20_000
    for number in range(1, n_sites):
        assert budgets.take(number, f"http://h{number}.test/", number, 0) == ""
    n_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_bytes < 20 * n_sites


class Own(Spider):
    """Requests pages of its own choice on one site, and follows the links of another."""

    name = "own"

    async def start(self):
        yield Request("http://list.test/")

    def parse(self, response):
        if response.url == "http://list.test/":
            yield Request("http://links.test/")
            for number in range(6):
                yield Request(f"http://shop.test/{number}", meta={"own": number})
        elif response.url == "http://links.test/":
            yield LinkPairs(response.url, [f"http://shop.test/l{n}" for n in range(9)])


@pytest.mark.parametrize("resumes", [False, True])
def test_requests_of_the_projects_own_code_are_not_claims(tmp_path, resumes):
    """Of 12 pages of a site, 3 may be claims; the spider's own six requests do not count."""
    settings = {
        **BREADTH_FIRST,
        "CRAWLPRIO_MAX_PAGES_PER_SITE": 12,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        **job_in(tmp_path),
    }
    with Site({}, lambda host, path: page()) as site:
        if resumes:
            run_spider(Own, {**settings, "CLOSESPIDER_PAGECOUNT": 1}, site=site)
            assert len(site.fetches) <= 2
        run = run_spider(Own, settings, site=site)
    assert run.reason == "finished"
    fetched = [fetch.path for fetch in site.fetches if fetch.host == "shop.test"]
    assert sorted(path for path in fetched if path[1] != "l") == [f"/{n}" for n in range(6)]
    assert [path for path in fetched if path[1] == "l"] == ["/l0", "/l1", "/l2"]
