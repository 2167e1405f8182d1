"""The scope decides which links are followed; the graph has every link between known pages."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from crawls import ADDON, BREADTH_FIRST, Answer, Site, job_in, page, run_spider
from spiders import Follower
from stores import query, record_visits, table, visit

from crawlprio.measure.importance import open_repository
from crawlprio.simulator.graph_pages import Source
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.graph_files import export_links

HOST = "http://a.test"
WEB = {
    "/": ["/1", "/2"],
    "/1": ["/3", "/", "/2"],
    "/2": ["/1", "/", "/4", "http://b.test/"],
    "/3": ["/1", "/2", "/3", "/4", "/5"],
    "/4": ["/", "/3", "/5"],
}


def crawl(folder, web, seeds="/", **settings):
    pages = {path: link if isinstance(link, Answer) else page(*link) for path, link in web.items()}
    every = {**BREADTH_FIRST, "CRAWLPRIO_STORE": str(folder / "crawl.sqlite"), **settings}
    starts = ",".join(HOST + path for path in seeds.split(","))
    return run_spider(SiteSpider, every, site=pages, seeds=starts)


def in_sql(folder):
    return set(query(folder / "crawl.sqlite", "SELECT source_url, target_url FROM link_urls"))


def in_graph(folder):
    graph = open_repository(folder / "crawl.sqlite").graph
    sources = np.repeat(np.arange(graph.n_pages), np.diff(graph.indptr))
    pairs = zip(sources.tolist(), graph.indices.tolist(), strict=True)
    return {(graph.urls[source], graph.urls[target]) for source, target in pairs}


def exported(folder):
    with Store.open(folder / "crawl.sqlite", readonly=True) as store:
        export_links(store, folder / "links.csv")
    lines = (folder / "links.csv").read_text().splitlines()[1:]
    return {tuple(line.split(",")[:2]) for line in lines}


def between(known, fetched):
    """Return the links of the web from fetched pages to known pages."""
    return {
        (HOST + source, HOST + target)
        for source, targets in WEB.items()
        for target in targets
        if source in fetched and target in known and source != target
    }


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        ({"DEPTH_LIMIT": 2}, {"/", "/1", "/2", "/3", "/4"}),
        ({"DEPTH_LIMIT": 1}, {"/", "/1", "/2"}),
        ({"CRAWLPRIO_MAX_STATIC_DEPTH": 2}, {"/", "/1", "/2", "/3", "/4"}),
        ({"CRAWLPRIO_MAX_PAGES_PER_SITE": 4}, {"/", "/1", "/2", "/3"}),
        ({"CRAWLPRIO_MAX_PAGES_PER_PATTERN": 2}, {"/", "/1", "/2"}),
    ],
)
def test_no_limit_on_depth_or_number_removes_links_between_known_pages(settings, known, tmp_path):
    crawl(tmp_path, WEB, **settings)
    expected = between(known, known)
    assert in_sql(tmp_path) == in_graph(tmp_path) == exported(tmp_path) == expected
    assert len(expected) > len(known)


class Choosy:
    """A project's spider middleware that follows no link to /3 or beyond."""

    async def process_spider_output(self, response, result):
        async for output in result:
            if isinstance(output, dict) or output.url[-1] < "3":
                yield output


@pytest.mark.parametrize("scheduler", ["crawlprio", "scrapy"])
@pytest.mark.parametrize(
    ("settings", "known"),
    [
        ({"DEPTH_LIMIT": 2}, {"/", "/1", "/2", "/3", "/4"}),
        ({"DEPTH_LIMIT": 1}, {"/", "/1", "/2"}),
        ({"SPIDER_MIDDLEWARES": {Choosy: 500}}, {"/", "/1", "/2"}),
        ({}, {"/", "/1", "/2", "/3", "/4", "/5", "/."}),
    ],
)
def test_links_that_a_middleware_drops_are_in_the_graph_under_the_add_on(
    settings, known, scheduler, tmp_path
):
    every = {**BREADTH_FIRST, "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"), **settings}
    if scheduler == "scrapy":
        every["SCHEDULER"] = "scrapy.core.scheduler.Scheduler"
    run = run_spider(Follower, every, site={path: page(*links) for path, links in WEB.items()})
    assert run.reason == "finished"
    expected = between(known, known)
    links = {link for link in in_sql(tmp_path) if "b.test" not in link[1]}
    assert links == expected
    outside = {
        (HOST + source, link if "//" in link else HOST + link)
        for source, targets in WEB.items()
        for link in targets
        if source in known and link not in known and "b.test" not in link
    }
    sql = "SELECT p.url, o.url FROM outside_links o JOIN pages p ON p.id = source"
    rows = query(tmp_path / "crawl.sqlite", sql)
    assert {row for row in rows if "b.test" not in row[1]} == outside


@pytest.mark.parametrize(
    ("home", "settings"),
    [
        (page("/1", "/2", "/x.zip"), {}),
        (Answer('<a href="/1">one</a><a rel=nofollow href="/x.zip">x</a>'), {}),
        (
            Answer('<meta name=robots content=nofollow><a href="/1">one</a><a href="/x.zip">x</a>'),
            {},
        ),
    ],
)
def test_an_unfollowed_link_to_a_seed_is_in_the_graph(home, settings, tmp_path):
    html = {"Content-Type": "text/html"}
    web = {"/": home._replace(headers=html), "/x.zip": [], "/1": [], "/2": []}
    crawl(tmp_path, web, "/,/x.zip,/1", **settings)
    assert {(f"{HOST}/", f"{HOST}/x.zip"), (f"{HOST}/", f"{HOST}/1")} <= in_sql(tmp_path)
    assert in_sql(tmp_path) == in_graph(tmp_path) == exported(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
def test_a_link_whose_target_becomes_known_later_is_in_the_graph(killed, tmp_path):
    """/deep is fetched first; it is too deep for its links to pages with a query to be followed."""
    web = {
        "/": ["/a", "/g"],
        "/a": ["/b"],
        "/b": ["/deep"],
        "/deep": ["/late?b=1&a=2", "/never?a=1", "/deep#top", "/late?b=1&a=2#again"],
        "/g": ["/late?a=2&b=1"],
    }
    crawl(tmp_path, web, CRAWLPRIO_MAX_DYNAMIC_DEPTH=3, ORDERING="depth-first")
    link = (f"{HOST}/deep", f"{HOST}/late?a=2&b=1")
    with closing(sqlite3.connect(tmp_path / "crawl.sqlite")) as db:
        urls = db.execute("SELECT url FROM visits JOIN pages ON page = id ORDER BY seq")
        fetched = [url for (url,) in urls]
        assert fetched.index(f"{HOST}/deep") < fetched.index(f"{HOST}/g")
        if killed:  # the last run would have written this at its end
            db.execute("DELETE FROM late_links")
            db.commit()
    assert (link in in_sql(tmp_path)) is not killed
    assert link in in_graph(tmp_path)
    assert link in exported(tmp_path)
    assert not any("never" in target for _, target in in_graph(tmp_path))


def test_the_cash_of_opic_flows_over_links_that_are_too_deep(tmp_path):
    """Of two waiting pages, the one with links from pages at the depth limit goes first."""
    web = {"/": ["/a", "/x", "/y"], "/a": ["/b"], "/b": ["/y", "/c"], "/x": [], "/y": []}
    pages = {path: page(*links) for path, links in web.items()}
    settings = {**ADDON, "CONCURRENT_REQUESTS": 1, "ORDERING": "opic", "DEPTH_LIMIT": 2}
    run = run_spider(SiteSpider, settings, site=pages, seeds=f"{HOST}/")
    assert run.site.paths() == ["/", "/a", "/b", "/y", "/x"]


def test_a_resumed_crawl_replays_the_original_evidence(tmp_path):
    """In one run or in three, the pages are fetched in the same order."""
    web = {"/": ["/1", "/2"], **{f"/{n}": [f"/{2 * n}", f"/{n // 3}", "/7"] for n in range(1, 99)}}
    orders = []
    for name, stops in (("one", [0]), ("three", [4, 3, 0])):
        pages = {path: page(*links) for path, links in web.items()}
        with Site(pages) as site:
            for stop in stops:
                run_spider(
                    SiteSpider,
                    {
                        **ADDON,
                        **job_in(tmp_path / name),
                        "CONCURRENT_REQUESTS": 1,
                        "DEPTH_LIMIT": 5,
                        "CLOSESPIDER_PAGECOUNT": stop,
                    },
                    site=site,
                    seeds=f"{HOST}/",
                )
            orders.append(site.paths())
    assert len(orders[0]) == len(set(orders[0])) > 12
    assert orders[0] == orders[1]
    one, three = (in_graph(tmp_path / name) for name in ("one", "three"))
    assert one == three == in_sql(tmp_path / "one") == in_sql(tmp_path / "three")


def test_a_store_without_the_table_gets_it_when_it_is_next_written(tmp_path):
    shown = visit(0, 1, outside=[(f"{HOST}/2", "two")])
    path = record_visits(tmp_path / "crawl.sqlite", table(f"{HOST}/0", f"{HOST}/1"), shown)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TABLE late_links; DROP VIEW links;"
            "CREATE VIEW links(source, target, anchor) AS SELECT v.page, t.value, ''"
            " FROM visits v, json_each(v.targets) t;"
        )
    with Store.open(path, readonly=True) as store:
        assert store.link_graph().n_links == 1
    with Store.open(path) as store:
        pages = store.load_pages()
        pages.add(f"{HOST}/2", f"{HOST}/2", pages.site("a.test"))
        store.record_pages(pages)
        store.end_run(1.0, pages)
        assert store.link_graph().n_links == 2
        assert [row[:2] for row in store.link_rows()] == [(0, [1, 2])]
        assert [row[2] for row in store.link_rows()] == [["", "two"]]
    assert query(path, "SELECT * FROM links ORDER BY target") == [(0, 1, ""), (0, 2, "two")]


def test_simulate_sees_the_links_that_score_sees(tmp_path):
    crawl(tmp_path, WEB, DEPTH_LIMIT=2)
    source = Source.open(tmp_path / "crawl.sqlite")
    assert source.graph.n_links == len(in_graph(tmp_path)) == 13
