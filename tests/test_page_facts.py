"""A fact of a page that a part of a project reads goes wherever the visit of the page goes.

The part is `page_facts.py` of the kit; no line of crawlprio names it, or its side table.
"""

import logging
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from commands import refusal, run_command
from crawls import ADDON, ONE_AT_A_TIME, Site, job_in, run_spider
from drop_in import html
from page_facts import CANONICAL, CanonicalLinks, RecordsCanonicalLinks
from shared_crawls import InRedis, shared_crawl
from spiders import Follower
from stores import query, table, visit

from crawlprio.errors import StoreError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import Directives, LinkPairs
from crawlprio.plugins.shared.messages import parsed, visit_reader, visit_row, written
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.side_tables import TABLES, SideTable

crawl = shared_crawl

PART = Path(__file__).parent / "kit" / "page_facts.py"
FACTS = "SELECT url, canonical, n FROM canonical_links AS facts JOIN pages ON id = facts.page"
DECLARED = {**TABLES, CANONICAL.name: CANONICAL}


def collected(*words):
    assert run_command("links", "collect", *words) == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("crawl", "n_workers"),
    [("one machine", 0), ("one machine", 2), ("redis", 2)],
    indirect=["crawl"],
)
def test_it_is_in_the_store_of_one_process_and_of_workers_and_in_a_copy(
    crawl, n_workers, tmp_path, monkeypatch
):
    web, expected = crawl.web, set()
    for page in range(web.n_pages):
        _, kind, body = web.answer(web.host(page % web.n_sites), web.path(page))
        if page % 3:
            link = b'<link rel=canonical href="/canonical-%d"><title>' % page
            body = body.replace(b"<title>", link)
            url = web.url(page)
            expected.add((url, url.replace("/page-", "/canonical-"), 1))
        web.others[web.path(page)] = kind, body
    shutil.copy(PART, crawl.folder)
    monkeypatch.setenv("PYTHONPATH", str(crawl.folder))
    crawl.start(n_workers, EXTENSIONS={"page_facts.RecordsCanonicalLinks": 1})
    crawl.end_whole()
    assert set(crawl.rows(FACTS)) == expected
    assert len(crawl.rows(FACTS)) == len(expected)
    copy = tmp_path / "copy.sqlite"
    if isinstance(crawl, InRedis):
        monkeypatch.chdir(crawl.folder)
        collected("site", copy, "-s", f"REDIS_URL={crawl.server.url}")
    else:
        collected(crawl.store, write(tmp_path / "other.sqlite", "http://b.test/"), copy)
        assert query(copy, f"{FACTS} WHERE canonical = 'own'") == [("http://b.test/", "own", 2)]
    assert {row for row in query(copy, FACTS) if row[1] != "own"} == expected


@pytest.mark.parametrize("spider", [SiteSpider, Follower])
def test_spiders_that_yield_link_pairs_and_requests_record_it_and_a_resume_has_it_again(
    spider, tmp_path
):
    pages = {
        "/": html('<link rel=canonical href="/home"><a href="/1">1</a>'),
        "/1": html(
            '<a href="/2">2</a><link rel=canonical href="//b.test/"><link rel=canonical href=x>'
        ),
        "/2": html("no canonical link"),
    }
    settings = {
        **ADDON,
        **ONE_AT_A_TIME,
        **job_in(tmp_path),
        "EXTENSIONS": {RecordsCanonicalLinks: 1},
    }
    arguments = {"seeds": "http://a.test/"} if spider is SiteSpider else {}
    rows = ("http://a.test/home", 1), ("http://b.test/", 2)
    with Site(pages) as site:
        run_spider(spider, {**settings, "CLOSESPIDER_PAGECOUNT": 2}, site=site, **arguments)
        earlier = list(RecordsCanonicalLinks.part.seen)
        run_spider(spider, settings, site=site, **arguments)
    seen = RecordsCanonicalLinks.part.seen
    assert earlier
    assert seen[: len(earlier)] == earlier
    assert set(seen) == {*rows, None}
    assert {*query(tmp_path / "crawl.sqlite", FACTS)} == {
        ("http://a.test/", *rows[0]),
        ("http://a.test/1", *rows[1]),
    }


def test_a_crawl_whose_part_cannot_begin_is_refused(monkeypatch):
    monkeypatch.setattr(CanonicalLinks, "opened", lambda part: part.seen["first"])
    with Site({"/": html("")}) as site:
        run = run_spider(Follower, {**ADDON, "EXTENSIONS": {RecordsCanonicalLinks: 1}}, site=site)
    (said,) = (text for text in run.messages(logging.ERROR) if "could not begin" in text)
    assert said.startswith("CanonicalLinks could not begin (TypeError('list indices")
    assert site.fetches == []


def write(path, *urls, **fields):
    """Write a store of visits of some URLs with a row each."""
    pages = table(*urls)
    with Store.create(path) as store:
        store.declare(DECLARED)
        store.record_pages(pages, [0])
        for page in range(len(urls)):
            extras = {CANONICAL.name: ("own", 2)}
            store.record(visit(page, status=200, extras=extras, **fields), pages)
        store.end_run(1.0, pages)
    return path


def test_it_is_read_back_by_its_table_and_beside_no_other(tmp_path):
    path = write(tmp_path / "crawl.sqlite", "http://a.test/", "http://a.test/2")
    with Store.open(path, readonly=True) as store:
        assert store.side_tables() == {CANONICAL.name: CANONICAL}
        assert [each.extras for each in store.visits()] == [{}, {}]
        found = [each.extras for each in store.visits(beside=[CANONICAL, *TABLES.values()])]
        assert found == [{CANONICAL.name: ("own", 2)}] * 2


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE canonical_links SET n = 'x'",
        "UPDATE canonical_links SET canonical = x'00'",
        "DROP TABLE canonical_links; CREATE TABLE canonical_links(seq, canonical, n)",
        "DROP TABLE canonical_links;"
        " CREATE VIEW canonical_links AS SELECT 1 AS seq, 1 AS page, 'x' AS canonical, 1 AS n",
    ],
)
def test_rows_that_are_damaged_are_one_sentence_to_a_reader_and_to_a_copy(sql, tmp_path, capsys):
    path = write(tmp_path / "crawl.sqlite", "http://a.test/")
    other = write(tmp_path / "other.sqlite", "http://b.test/")
    with Store.open(path) as store, closing(store._db.cursor()) as cursor:
        cursor.executescript(sql)
    with (
        Store.open(path, readonly=True) as store,
        pytest.raises(StoreError, match="the file is damaged"),
    ):
        list(store.visits(beside=[CANONICAL]))
    if "DROP" not in sql:
        said = refusal(capsys, "links", "collect", path, other, tmp_path / "whole")
        assert "the file is damaged" in said
        assert not (tmp_path / "whole").exists()


@pytest.mark.parametrize("row", [("x",), ("x", "1"), (b"x", 1), (None, 1), ("x", 1, 1), "x1", None])
def test_a_row_that_its_table_cannot_have_is_refused_before_it_is_written(row, tmp_path):
    pages = table("http://a.test/")
    with Store.create(tmp_path / "crawl.sqlite") as store:
        store.declare(DECLARED)
        with pytest.raises(StoreError, match="a row that its table canonical_links cannot have"):
            store.record(visit(0, extras={CANONICAL.name: row}), pages)
        with pytest.raises(StoreError, match="'unknown' for a page; a row must be of a side table"):
            store.record(visit(0, extras={"unknown": (1,)}), pages)
        assert store.n_visits == 0
    pairs = LinkPairs("http://a.test/", [])
    pairs.extras["bodies"] = (b"body",)
    said = visit_row(PageVisit(pairs))
    if not (isinstance(row, tuple) and bytes in map(type, row)):
        said[-1][CANONICAL.name] = row
        with pytest.raises(ValueError, match="found"):
            visit_reader(DECLARED)(parsed(written(said)))
    said[-1].pop(CANONICAL.name, None)
    said[-1]["bodies"] = ["no base64!"]
    with pytest.raises(ValueError, match="base64"):
        visit_reader(DECLARED)(said)


@pytest.mark.parametrize(
    "columns", ["n INTEGER", "n NUMERIC NOT NULL", "n", "n INTEGER NOT NULL)", ""]
)
def test_a_table_whose_rows_could_not_be_checked_cannot_be_declared(columns):
    with pytest.raises(ValueError, match="are no columns of a table of visits"):
        SideTable.of_visits("facts", columns)


def test_tables_are_on_disk_as_earlier_versions_created_them():
    of_visit = "seq INTEGER PRIMARY KEY, page INTEGER NOT NULL"
    assert {table.name: table.columns for table in TABLES.values()} == {
        "page_values": f"{of_visit}, value REAL NOT NULL",
        "fingerprints": f"{of_visit}, fingerprint INTEGER NOT NULL",
        "directives": f"{of_visit}, x_robots_tag TEXT NOT NULL, meta_robots TEXT NOT NULL, "
        "content_usage TEXT NOT NULL, robots_usage TEXT NOT NULL",
        "text_notes": f"{of_visit}, language TEXT NOT NULL, declared_language TEXT NOT NULL, "
        "licence TEXT NOT NULL",
        "bodies": "visit INTEGER PRIMARY KEY, body BLOB NOT NULL",
    }


def test_rows_of_tables_that_a_crawl_does_not_have_are_left_out_as_they_arrive():
    pairs = LinkPairs("http://a.test/", [], value=0.5, directives=Directives("noindex"))
    pairs.extras[CANONICAL.name] = "http://a.test/", 1
    said = parsed(written([visit_row(PageVisit(pairs))]))[0]
    assert visit_reader(DECLARED)(said).pairs.extras == pairs.extras
    known = {name: TABLES[name] for name in ("directives",)}
    assert visit_reader(known)(said).pairs.extras == {"directives": Directives("noindex")}


def test_no_module_of_crawlprio_names_it():
    package = Path(__file__).parents[1] / "crawlprio"
    assert not [file for file in package.rglob("*.py") if CANONICAL.name in file.read_text()]
