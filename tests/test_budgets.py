"""Budgets: what a site, a domain and a pattern may have, and what others may take of it."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import pytest
from crawls import Answer, Site, page
from hostile import crawl, refused

from crawlprio.store import Store
from crawlprio.web.budgets import NO_SITE, Budgets, pattern_of
from crawlprio.web.scope import registered_domain

HOSTS = ["victim.test", "evil.test", "www.victim.test"]
VICTIM, EVIL, WWW = range(3)


class Web:
    """Budgets, and the pages that they let in."""

    def __init__(self, **limits: int) -> None:
        self.sites: list[int] = []
        self.urls: list[str] = []
        self.budgets = Budgets(registered_domain, self.sites.count, **limits)

    def take(self, path: str, site: int = VICTIM, source: int = NO_SITE) -> str:
        url = f"http://{HOSTS[site]}{path}"
        refusal = self.budgets.take(site, HOSTS[site], url, len(self.sites), source)
        if not refusal:
            self.sites.append(site)
            self.urls.append(url)
        return refusal

    def succeed(self, number: int) -> None:
        site = self.sites[number]
        self.budgets.fetched(number, site, HOSTS[site])


def evil_page(web: Web) -> None:
    web.budgets.add(EVIL, HOSTS[EVIL], "http://evil.test/")
    web.sites.append(EVIL)
    web.urls.append("http://evil.test/")


@pytest.mark.parametrize("limit", ["per_site", "per_domain", "per_pattern"])
def test_other_domains_claim_a_quarter_of_a_budget_and_no_more(limit: str) -> None:
    web = Web(**{limit: 20})
    evil_page(web)
    claims = [web.take(f"/{n}", VICTIM, EVIL) for n in range(10)]
    assert claims == [""] * 5 + ["claim-budget"] * 5
    own = [web.take(f"/{n}", VICTIM, VICTIM) for n in range(20, 40)]
    assert own == [""] * 15 + [f"{limit.removeprefix('per_')}-budget"] * 5


def test_a_claim_that_was_fetched_with_success_is_none_any_more() -> None:
    web = Web(per_site=8, per_pattern=8)
    evil_page(web)
    assert [web.take(f"/{n}", VICTIM, EVIL) for n in range(3)] == ["", "", "claim-budget"]
    web.succeed(1)
    web.succeed(1)
    assert [web.take(f"/{n}", VICTIM, EVIL) for n in range(3, 5)] == ["", "claim-budget"]


def test_sites_of_one_domain_claim_nothing_of_each_other() -> None:
    web = Web(per_site=8)
    assert web.take("/") == ""
    assert [web.take(f"/{n}", WWW, VICTIM) for n in range(6)] == [""] * 6


def test_replayed_pages_are_the_claims_that_they_were() -> None:
    limits = {"per_site": 8, "per_domain": 12, "per_pattern": 8}
    web = Web(**limits)
    evil_page(web)
    for n in range(2):
        assert web.take(f"/{n}", VICTIM, EVIL) == ""
    web.succeed(1)
    again = Web(**limits)
    again.budgets.replay(
        EVIL, "evil.test", [(1, VICTIM, "victim.test"), (2, VICTIM, "victim.test")]
    )
    again.budgets.replay_fetched(1)
    again.budgets.add_all((s, HOSTS[s], u) for s, u in zip(web.sites, web.urls, strict=True))
    again.sites[:], again.urls[:] = web.sites, web.urls
    for one in (web, again):
        assert [one.take(f"/{n}", VICTIM, EVIL) for n in range(5, 8)] == ["", *["claim-budget"] * 2]
        one.succeed(2)
        assert one.take("/9", VICTIM, EVIL) == ""


def test_nobody_can_choose_whose_pattern_shares_his_slot() -> None:
    """By CRC-32 a page could spend the pattern of another site with links to itself."""
    seed = 20261122
    print("seed", seed)
    source = random.Random(seed)
    seen: dict[int, str] = {}
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
        budgets = Budgets(registered_domain, lambda site: 0, per_pattern=1)
        assert budgets.take(0, "x.test", first, 0) == ""
        assert budgets.refuses(0, "x.test", first) == "pattern-budget"
        assert budgets.refuses(0, "x.test", second) == ""


def junk_web(host: str, path: str) -> Answer | None:
    """A site of 60 pages in a chain, and one that links to what it does not have."""
    if host == "evil.test":
        junk = [f"http://victim.test/junk/{path[1:] or 0}-{n}" for n in range(150)]
        return page(*junk, "/1", "/2", "http://victim.test/0")
    number = path[1:]
    if host == "victim.test" and number.isdigit() and int(number) < 60:
        return page(*(f"/{int(number) + 1}" for _ in range(int(number) < 59)))
    return None


@pytest.mark.parametrize("ordering", ["breadth-first", "opic"])
def test_junk_links_of_another_site_do_not_keep_a_site_from_being_fetched(ordering: str) -> None:
    """Of 60 real pages not one was fetched, when a page of another site claimed them all."""
    with Site({}, junk_web) as site:
        run = crawl(
            site,
            {
                "CRAWLPRIO_MAX_PAGES_PER_SITE": 200,
                "CRAWLPRIO_MAX_STATIC_DEPTH": None,
                "ORDERING": ordering,
            },
            seeds="http://evil.test/,http://victim.test/0",
            follow="web",
        )
    fetched = [fetch.path for fetch in site.fetches if fetch.host == "victim.test"]
    assert [path for path in fetched if path[1:].isdigit()] == [f"/{n}" for n in range(60)]
    assert len(fetched) == 60 + 50
    assert refused(run)["refused/claim-budget"] == 450 - 50


def test_claims_last_over_a_restart(tmp_path: Path) -> None:
    settings = {
        "CRAWLPRIO_MAX_PAGES_PER_SITE": 40,
        "JOBDIR": str(tmp_path / "job"),
        "CRAWLPRIO_STORE": "crawl.sqlite",
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


@pytest.mark.parametrize(("most", "known"), [(1_000_000, 1_001), (50, 50), (None, 3_001)])
def test_one_page_adds_so_many_sites_and_all_together_so_many(most: int | None, known: int) -> None:
    """10,000 invented hosts a page took half a kilobyte each, for ever."""
    hosts = [f"http://h{n}.test/" for n in range(3_000)]
    with Site({}, lambda host, path: page(*hosts) if host == "a.test" else None) as site:
        run = crawl(site, {"CRAWLPRIO_MAX_SITES": most, "CLOSESPIDER_PAGECOUNT": 2}, follow="web")
    assert run.stats["crawlprio/sites_known"] == known
    assert refused(run).get("refused/sites", 0) == 3_001 - known
