"""Crawls with sitemaps: who may name what, when their pages are fetched, and what a kill costs."""

from itertools import pairwise

import pytest
from crawls import ADDON, ONE_AT_A_TIME, Answer, page, run_spider
from hostile import crawl
from spiders import Follower
from stores import query

from crawlprio.live import sitemap_files
from crawlprio.store import Store

ROBOTS = {"CRAWLPRIO_SITEMAPS": "robots", "ROBOTSTXT_OBEY": True}


def urlset(*urls):
    inner = "".join(f"<url><loc>{url}</loc><priority>1</priority></url>" for url in urls)
    return Answer(f"<urlset>{inner}</urlset>", headers={"Content-Type": "text/xml"})


def index(*urls):
    inner = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return Answer(f"<sitemapindex>{inner}</sitemapindex>")


def robots(*urls, rules=""):
    return Answer(f"User-agent: *\n{rules}\n" + "".join(f"Sitemap: {url}\n" for url in urls))


def crawled(pages, path, settings=ROBOTS, **more):
    """Crawl with the spider `site`, one fetch at a time; return the run and the paths fetched."""
    every = {**ONE_AT_A_TIME, "CRAWLPRIO_STORE": str(path), **settings}
    run = crawl(pages, every, **more)
    return run, run.site.paths()


def named(path):
    return [url for (url,) in query(path, "SELECT url FROM sitemap_urls ORDER BY id")]


WEB = {
    "/": page("/1", "/2"),
    "/1": page("/3", "/"),
    "/2": page("/4"),
    "/3": page("/2"),
    "/4": page("/5"),
    "/5": page(),
    "/s1": page("/s1/linked", "/5"),
    "/s1/linked": page(),
    "/s2": page(),
    "/robots.txt": robots("http://a.test/sitemap.xml"),
    "/sitemap.xml": urlset(*(f"http://a.test/{name}" for name in ("s1", "5", "s2", "1", "s3"))),
}
LINKED = ["/", "/1", "/2", "/3", "/4", "/5"]


def test_pages_that_only_a_sitemap_knows_come_after_all_linked_ones(tmp_path):
    run, paths = crawled(WEB, tmp_path / "a.sqlite")
    rest = [path for path in paths if path not in LINKED]
    assert [path for path in paths if path in LINKED] == LINKED
    assert rest == ["/sitemap.xml", "/s1", "/s1/linked", "/s2", "/s3"]
    assert run.reason == "finished"
    assert run.stats["crawlprio/sitemaps/urls"] == 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ordering", ["breadth-first", "opic", "sibling-sampling", "random"])
def test_linked_pages_leave_in_the_same_order_with_and_without_sitemaps(tmp_path, ordering):
    web = {f"/{n}": page(*(f"/{(7 * n + k) % 60}" for k in (1, 5, 11, 17))) for n in range(60)}
    web |= {"/": page("/1", "/2"), "/robots.txt": robots("http://a.test/sitemap.xml")}
    every = [f"http://a.test/{n}" for n in (*range(59, 0, -2), *range(1_000, 1_010))]
    web["/sitemap.xml"] = urlset(*every)
    settings = {**ROBOTS, "ORDERING": ordering}
    if ordering == "random":
        settings["ORDERING_OPTIONS"] = {"seed": 5}
    _, without = crawled(web, tmp_path / "a.sqlite", {**settings, "CRAWLPRIO_SITEMAPS": None})
    _, paths = crawled(web, tmp_path / "b.sqlite", settings)
    paths.remove("/sitemap.xml")
    assert len(without) > 50
    assert "/sitemap.xml" not in without
    assert paths[: len(without)] == without
    assert paths[len(without) :] == [f"/{n}" for n in range(1_000, 1_010)]


def test_as_seeds_they_are_ordered_among_the_linked_ones(tmp_path):
    path = tmp_path / "a.sqlite"
    _, paths = crawled(WEB, path, {**ROBOTS, "CRAWLPRIO_SITEMAP_PAGES": "seeds"})
    assert sorted(paths) == sorted([*LINKED, "/s1", "/s2", "/s3", "/s1/linked", "/sitemap.xml"])
    assert paths.index("/s2") < paths.index("/3")
    with Store.open(path, readonly=True) as store:
        urls = list(store.page_urls())
        seeds = [urls[page] for page in store.seeds()]
    assert sorted(seeds) == sorted({"http://a.test/", *named(path)})


def test_recorded_only_they_are_not_fetched(tmp_path):
    path = tmp_path / "a.sqlite"
    _, paths = crawled(WEB, path, {**ROBOTS, "CRAWLPRIO_SITEMAP_PAGES": "record"})
    assert [each for each in paths if each != "/sitemap.xml"] == LINKED
    with Store.open(path, readonly=True) as store:
        assert store.sitemaps().counts() == [("a.test", 5, 2, 2)]
    assert query(path, "SELECT DISTINCT lastmod, priority FROM sitemap_urls") == [("", 1.0)]


def test_a_sitemap_given_by_its_url_needs_no_robots_txt(tmp_path):
    settings = {"CRAWLPRIO_SITEMAPS": "http://a.test/sitemap.xml"}
    _, paths = crawled(WEB, tmp_path / "a.sqlite", settings)
    assert sorted(paths) == sorted([*LINKED, "/s1", "/s2", "/s3", "/s1/linked", "/sitemap.xml"])
    assert [path for path in paths if path in LINKED] == LINKED


def test_a_sitemap_names_pages_only_of_the_site_whose_robots_txt_names_it(tmp_path):
    web = {
        "a.test/": page("http://b.test/"),
        "a.test/robots.txt": robots("http://a.test/own.xml", "http://cdn.test/a.xml"),
        "b.test/robots.txt": robots("http://cdn.test/index.xml"),
        "a.test/own.xml": urlset("http://b.test/no", "http://a.test/own", "http://www.a.test/own"),
        "cdn.test/a.xml": urlset("http://a.test/cdn", "http://b.test/no", "http://cdn.test/no"),
        "cdn.test/index.xml": index(
            "http://cdn.test/b.xml", "http://b.test/b.xml", "http://a.test/no.xml"
        ),
        "cdn.test/b.xml": urlset("http://b.test/cdn"),
        "b.test/b.xml": urlset("http://b.test/own"),
    }
    path = tmp_path / "a.sqlite"
    run, paths = crawled(web, path, follow="web")
    assert sorted(named(path)) == [
        "http://a.test/cdn",
        "http://a.test/own",
        "http://b.test/cdn",
        "http://b.test/own",
        "http://www.a.test/own",
    ]
    assert "/no.xml" not in paths
    assert run.stats["crawlprio/sitemaps/foreign"] == 4
    assert run.messages()[0] == (
        "Sitemap http://a.test/own.xml: URLs of other sites are left out (1)."
    )


def test_relative_urls_are_read_as_they_are_meant_and_what_is_no_url_is_counted(tmp_path):
    """They are relative to robots.txt, and to where the sitemap was found in the end."""
    pages = {
        **WEB,
        "/robots.txt": robots("maps/all.xml", "ftp://a.test/no.xml"),
        "/maps/all.xml": Answer("", 301, {"Location": "/more/all.xml"}),
        "/more/all.xml": urlset("/s1", "s2?a=1&b=2", "javascript:no", "mailto:me@a.test"),
    }
    crawled(pages, tmp_path / "a.sqlite")
    assert named(tmp_path / "a.sqlite") == ["http://a.test/s1", "http://a.test/more/s2?a=1&b=2"]
    assert query(tmp_path / "a.sqlite", "SELECT url, remark FROM sitemaps") == [
        ("http://a.test/maps/all.xml", "entries without an http(s) URL are left out (2)")
    ]


def test_sites_out_of_scope_have_no_sitemaps_read(tmp_path):
    web = {
        "a.test/": page("/moved"),
        "a.test/moved": Answer(status=302, headers={"Location": "http://b.test/"}),
        "b.test/robots.txt": robots("http://b.test/sitemap.xml"),
        "b.test/sitemap.xml": urlset("http://b.test/1"),
    }
    _, paths = crawled(web, tmp_path / "a.sqlite")
    assert "/sitemap.xml" not in paths


def test_pages_of_a_sitemap_obey_scope_robots_and_budgets(tmp_path):
    web = {
        "/": page("/1"),
        "/robots.txt": robots("http://a.test/sitemap.xml", rules="Disallow: /secret"),
        "/sitemap.xml": urlset(
            *(f"http://a.test/{p}" for p in ("x.zip", "secret", "deny", *"2345"))
        ),
    }
    settings = {**ROBOTS, "CRAWLPRIO_MAX_PAGES_PER_SITE": 5}
    run, paths = crawled(web, tmp_path / "a.sqlite", settings, deny="deny")
    assert paths == ["/", "/sitemap.xml", "/1", "/2", "/3"]
    assert run.stats["crawlprio/refused/site-budget"] == 2


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://a.test/sitemap.xml", "forbidden by robots.txt"),
        ("http://10.0.0.1/sitemap.xml", "robots.txt unreachable (refused)"),
    ],
)
def test_a_sitemap_that_is_forbidden_or_at_a_private_address_is_not_fetched(tmp_path, url, why):
    web = {**WEB, "/robots.txt": robots(url, rules="Disallow: /sitemap")}
    run, paths = crawled(web, tmp_path / "a.sqlite")
    assert paths == LINKED
    (message,) = run.messages()
    assert message.startswith(f"Sitemap {url}: it could not be fetched (")
    assert why in message


def test_sitemaps_keep_the_delay_of_their_site(tmp_path):
    web = {**WEB, "/robots.txt": robots(*(f"http://a.test/sitemap{n}.xml" for n in range(3)))}
    settings = {**ONE_AT_A_TIME, **ROBOTS, "DOWNLOAD_DELAY": 0.2, "CONCURRENT_REQUESTS": 8}
    every = {**settings, "CRAWLPRIO_STORE": str(tmp_path / "a.sqlite")}
    run = crawl(web, {**every, "CONCURRENT_REQUESTS_PER_DOMAIN": 1})
    times = sorted((fetch.start, fetch.end) for fetch in run.site.fetches)
    assert len(times) == len(LINKED) + 4
    assert all(start - end >= 0.19 for (_, end), (start, _) in pairwise(times))


@pytest.mark.parametrize("depth", [1, 3])
def test_indexes_may_nest_but_not_endlessly(tmp_path, depth):
    last = f"http://a.test/s{depth}.xml"
    web = {
        **WEB,
        "/robots.txt": robots("http://a.test/s0.xml"),
        **{f"/s{n}.xml": index(f"http://a.test/s{n + 1}.xml") for n in range(depth)},
        f"/s{depth}.xml": urlset("http://a.test/s1"),
    }
    run, paths = crawled(web, tmp_path / "a.sqlite")
    assert (last.partition("test")[2] in paths) == (depth < 3)
    assert len(run.messages()) == (depth == 3)


def test_indexes_that_name_each_other_are_read_once(tmp_path):
    both = index("http://a.test/s0.xml", "http://a.test/s1.xml", "http://a.test/sitemap.xml")
    web = {**WEB, "/robots.txt": robots("http://a.test/s0.xml"), "/s0.xml": both, "/s1.xml": both}
    _, paths = crawled(web, tmp_path / "a.sqlite")
    assert [path for path in paths if path.endswith(".xml")] == [
        "/s0.xml",
        "/s1.xml",
        "/sitemap.xml",
    ]


def test_what_one_site_names_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(sitemap_files, "MAX_FILES", 30)
    web = {
        "/": page(),
        "/robots.txt": robots("http://a.test/s0.xml"),
        "/s0.xml": index(*(f"http://a.test/s{n}.xml" for n in range(1, 40))),
        "/s1.xml": urlset(*(f"http://a.test/{n}" for n in range(20))),
    }
    settings = {
        **ROBOTS,
        "CRAWLPRIO_MAX_SITEMAP_URLS": 7,
        "CRAWLPRIO_SITEMAP_PAGES": "record",
        "CONCURRENT_REQUESTS": 8,
    }
    path = tmp_path / "a.sqlite"
    run, paths = crawled(web, path, settings)
    assert (len(named(path)), len(paths)) == (7, 1 + 30)
    assert sorted(run.messages()) == [  # two are read at once
        "Sitemap http://a.test/s0.xml: of one site, 30 sitemaps are read.",
        "Sitemap http://a.test/s1.xml: CRAWLPRIO_MAX_SITEMAP_URLS (7) is reached.",
        "Sitemap http://a.test/s2.xml: it could not be fetched (status 404).",
    ]


@pytest.mark.parametrize(
    "scheduler", ["crawlprio.schedulers.Scheduler", "scrapy.core.scheduler.Scheduler"]
)
def test_under_the_add_on_pages_go_to_the_spiders_parse(tmp_path, scheduler):
    settings = {**ADDON, **ROBOTS, "CRAWLPRIO_STORE": str(tmp_path / "a.sqlite")}
    run = run_spider(
        Follower, {**settings, "SCHEDULER": scheduler, "CONCURRENT_REQUESTS": 1}, site=WEB
    )
    # A start request is no reason to drop a link to its page, which is fetched twice.
    found = list(dict.fromkeys(item["url"].partition("test")[2] for item in run.items))
    assert sorted(found[: len(LINKED)]) == LINKED
    rest = found[len(LINKED) :]
    # Scrapy's own scheduler hands out the next page before the callback of the last has ended.
    assert rest == ["/s1", "/s1/linked", "/s2"] or scheduler.startswith("scrapy.")
    assert sorted(rest) == ["/s1", "/s1/linked", "/s2"]
    assert run.reason == "finished"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ROBOTSTXT_OBEY": False}, "ROBOTSTXT_OBEY is off"),
        ({"CRAWLPRIO_STORE": None}, "CRAWLPRIO_STORE is None"),
        ({"CRAWLPRIO_SITEMAPS": "ftp://a.test/"}, "neither 'robots' nor an http(s) URL"),
    ],
)
def test_a_crawl_that_cannot_read_sitemaps_says_so_and_does_not_start(tmp_path, settings, problem):
    run, paths = crawled(WEB, tmp_path / "a.sqlite", {**ROBOTS, **settings})
    assert paths == []
    assert any(problem in message for message in run.messages())


def test_a_resumed_crawl_reads_and_fetches_what_is_left_and_nothing_twice(tmp_path):
    """Runs of a few pages each: the first ends before the sitemaps are read, others between."""
    web = {
        **WEB,
        "/robots.txt": robots("http://a.test/index.xml"),
        "/index.xml": index("http://a.test/sitemap.xml", "http://a.test/more.xml"),
        "/more.xml": urlset("http://a.test/m1", "http://a.test/m2", "http://a.test/s1"),
    }
    settings = {**ROBOTS, "JOBDIR": str(tmp_path), "CRAWLPRIO_STORE": "a.sqlite"}
    fetched = []
    for _ in range(12):
        run, paths = crawled(web, tmp_path, {**settings, "CLOSESPIDER_PAGECOUNT": 3})
        fetched += paths
        if run.reason == "finished":
            break
    assert run.reason == "finished"
    rest = ["/s1", "/s2", "/s3", "/s1/linked", "/m1", "/m2"]
    assert sorted(path for path in fetched if not path.endswith(".xml")) == sorted(LINKED + rest)
    assert sorted({path for path in fetched if path.endswith(".xml")}) == [
        "/index.xml",
        "/more.xml",
        "/sitemap.xml",
    ]
    assert len(named(tmp_path / "a.sqlite")) == 7


def test_no_more_sitemaps_are_read_while_a_crawl_that_has_its_pages_ends(tmp_path):
    """A slow page in flight keeps the spider from closing at once."""
    names = [f"/sitemap{n}.xml" for n in range(40)]
    web = {
        "a.test/": page("http://b.test/"),
        "a.test/robots.txt": robots(*(f"http://a.test{name}" for name in names)),
        **{f"a.test{name}": urlset("http://a.test/1")._replace(seconds=0.1) for name in names},
        "b.test/robots.txt": robots(),
        "b.test/": page()._replace(seconds=2.0),
    }
    settings = {**ROBOTS, "CONCURRENT_REQUESTS": 8, "CLOSESPIDER_PAGECOUNT": 8}
    _, paths = crawled(web, tmp_path / "a.sqlite", settings, follow="web")
    assert paths.count("/") == 2
    assert len([path for path in paths if path in names]) <= 8
