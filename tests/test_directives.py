"""What pages and their servers ask of those who use them is recorded with each visit."""

import json

import pytest
from crawls import ADDON, Answer, run_spider
from spiders import Follower
from stores import query, record_visits, table, visit

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import NO_DIRECTIVES, Directives, LinkPairs
from crawlprio.plugins.shared.messages import visit_reader, visit_row
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.side_tables import TABLES
from crawlprio.web.robots_txt import MAX_LENGTH, UsageRules, joined, rules_for

ROBOTS = """\
User-agent: *
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y
Content-Usage: /*.pdf$ search=n
Content-Usage: /twice a=y
Content-Usage: /twice a=n

User-agent: ExampleBot
Content-Usage: train-ai=y
"""
USUAL = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("agent", "path", "said"),
    [
        ("otherbot", "/test", "train-ai=n"),
        ("otherbot", "/ai-ok/test", "train-ai=y"),
        ("otherbot", "/ai-ok", "train-ai=n"),
        ("otherbot", "/x/y.pdf", "search=n"),
        ("otherbot", "/twice/x", "a=y, a=n"),
        ("examplebot", "/ai-ok/test", "train-ai=y"),
        ("examplebot", "/never/test", "train-ai=y"),
    ],
)
def test_the_longest_path_of_a_robots_own_group_decides(agent, path, said):
    rules, _ = rules_for(ROBOTS, agent)
    assert UsageRules(rules).preferences(f"http://a.test{path}") == said


@pytest.mark.parametrize("line", ["", "/", "/x", "  ", "/x   ", "* a=n"])
def test_a_line_without_preferences_asks_nothing_of_other_pages(line):
    rules, _ = rules_for(f"User-agent: *\nContent-Usage: {line}\n", "bot")
    assert UsageRules(rules).preferences("http://a.test/x") in ("", "* a=n")


def test_what_is_recorded_is_printable_and_bounded():
    assert joined(["a", " ", "b\x1b[2J"]) == "a, b [2J"
    assert len(joined(["x" * 5_000] * 3)) == MAX_LENGTH


PAGES = {
    "/robots.txt": Answer("User-agent: *\nContent-Usage: /used train-ai=n\nDisallow: /no\n"),
    "/": Answer(
        "<meta name=robots content='NoArchive, max-snippet:5'><meta name=ROBOTS content=noai>"
        "<a href=/tagged>1</a><a href=/used>2</a><a href=/plain>3</a><a href=/no>4</a>",
        headers=USUAL,
    ),
    "/tagged": Answer("x", headers={**USUAL, "X-Robots-Tag": "otherbot: noindex"}),
    "/used": Answer("x", headers={**USUAL, "Content-Usage": "search=y"}),
    "/plain": Answer("x", headers=USUAL),
}


@pytest.mark.parametrize("spider", [SiteSpider, Follower])
def test_they_are_rows_beside_the_visits(spider, path):
    settings = {**ADDON, "CRAWLPRIO_STORE": str(path), "ROBOTSTXT_OBEY": True}
    given = {"seeds": "http://a.test/"} if spider is SiteSpider else {}
    run_spider(spider, settings, site=PAGES, **given)
    rows = query(
        path,
        "SELECT url, x_robots_tag, meta_robots, content_usage, robots_usage "
        "FROM directives JOIN visits USING (seq) JOIN pages ON pages.id = visits.page "
        "ORDER BY url",
    )
    assert query(path, "SELECT count(*) FROM visits WHERE status = 200") == [(4,)]
    assert rows == [
        ("http://a.test/", "", "NoArchive, max-snippet:5, noai", "", ""),
        ("http://a.test/tagged", "otherbot: noindex", "", "", ""),
        ("http://a.test/used", "", "", "search=y", "train-ai=n"),
    ]


@pytest.mark.parametrize("directives", [NO_DIRECTIVES, Directives("noindex", "", "a=n", "b=y")])
def test_they_reach_the_store_of_a_shared_crawl_and_nothing_does_where_there_are_none(
    directives, tmp_path
):
    pairs = LinkPairs("http://a.test/", ["http://a.test/b"], directives=directives)
    said = visit_reader(TABLES)(json.loads(json.dumps(visit_row(PageVisit(pairs))))).pairs
    assert said == pairs
    shown = visit(0, extras=said.extras)
    path = record_visits(tmp_path / "crawl.sqlite", table("http://a.test/"), shown)
    if directives == NO_DIRECTIVES:
        tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'directives'"
        assert query(path, tables) == [(0,)]
    else:
        columns = "x_robots_tag, meta_robots, content_usage, robots_usage"
        assert query(path, f"SELECT {columns} FROM directives") == [tuple(directives)]


def test_a_store_without_them_has_no_table_and_takes_them_later(tmp_path):
    plain = visit(0)
    path = record_visits(tmp_path / "crawl.sqlite", table("http://a.test/"), plain)
    tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'directives'"
    assert query(path, tables) == [(0,)]
    with Store.open(path) as store:
        pages = store.load_pages()
        asked = plain._replace(extras={"directives": Directives(meta_robots="noindex\x00")})
        store.record(plain, pages, commits=False)
        store.record(asked, pages)
    with Store.open(path, readonly=True) as store:
        assert store.n_visits == 3
    rows = query(path, "SELECT seq, page, meta_robots FROM directives")
    assert rows == [(3, 0, "noindex\ufffd")]
