"""`crawlprio audit`: what a store knows of broken links, redirects, duplicates, titles, orphans."""

import csv
import json
import socket
from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import stores
from commands import refusal, run_command
from crawls import ADDON, PROJECT, Answer, Site, page, run_spider
from hypothesis import given
from hypothesis import strategies as st
from stores import record_visits, table

from crawlprio.graph.pages import NO_PAGE
from crawlprio.measure.link_audit import MAX_HOPS, Audit, chains
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.web.sitemaps import Named

HOST = "http://a.test/"


def store_of(folder, visits, n_pages=10):
    """Return a store of pages http://a.test/0, /1 and so on, every tenth on a further site."""
    hosts = ["a.test", *(f"s{n}.test" for n in range(1, n_pages // 10 + 1))]
    pages = table(*(f"http://{hosts[n // 10]}/{n}" for n in range(n_pages)))
    return record_visits(folder / "crawl.sqlite", pages, *visits, seeds=[0])


visit = partial(stores.visit, title="x")


def found(path, kind, slow=2.0):
    """Return URL, detail and related URLs of the findings of a kind, hosts left out."""
    with Store.open(path, readonly=True) as store:
        audit = Audit.of(store, slow_seconds=slow)
    (findings,) = (one for one in audit.findings if one.kind == kind)
    return [
        (one.url.removeprefix(HOST), one.detail, [u.removeprefix(HOST) for u in audit.urls(one[2])])
        for one in findings
    ]


def test_broken_links_come_with_the_pages_that_link_to_them_most_linked_first(tmp_path):
    visits = [
        visit(0, 1, 2, 3, 4, 5, 6),
        visit(1, 2, 3),
        visit(2, status=404),
        visit(3, status=0, error="timed out: 60 s"),
        visit(4, status=0, error="forbidden by robots.txt"),
        visit(5, status=301),
        visit(6, 7, status=302),
        visit(7, 2, status=503),
    ]
    assert found(store_of(tmp_path, visits), "broken-link") == [
        ("2", "HTTP 404", ["0", "1", "7"]),
        ("3", "timed out", ["0", "1"]),
        ("5", "HTTP 301", ["0"]),
        ("7", "HTTP 503", ["6"]),
    ]


def test_a_page_counts_as_last_visited(tmp_path):
    visits = [visit(0, 1, 2), visit(1, status=500), visit(2), visit(1), visit(2, status=410)]
    visits += [visit(0, 2)]
    path = store_of(tmp_path, visits)
    assert found(path, "broken-link") == [("2", "HTTP 410", ["0"])]


def test_chains_and_loops_of_redirects_are_told_apart(tmp_path):
    hops = {1: 2, 2: 3, 4: 5, 6: 7, 7: 6, 8: 7}
    visits = [visit(a, b, status=301) for a, b in hops.items()]
    path = store_of(tmp_path, [*visits, visit(3, status=404)])
    assert found(path, "redirect-chain") == [("1", "2 redirects, then HTTP 404", ["2", "3"])]
    assert found(path, "redirect-loop") == [("8", "loop after 3 redirects", ["7", "6", "7"])]


@given(st.lists(st.integers(-1, 11), min_size=12, max_size=12))
def test_every_redirect_is_in_a_chain_that_follows_it(ends):
    hop = np.array([NO_PAGE if e in (-1, page) else e for page, e in enumerate(ends)], np.int32)
    long, loops = chains(hop)
    for chain in [*long, *loops]:
        assert all(hop[a] == b for a, b in pairwise(chain))
        assert len(set(chain[:-1])) == len(chain) - 1
    assert all(hop[chain[-1]] == NO_PAGE for chain in long)
    assert all(chain[-1] in chain[:-1] for chain in loops)
    covered = {page for chain in [*long, *loops] for page in chain}
    for start in np.flatnonzero(hop != NO_PAGE).tolist():
        assert start in covered or (
            hop[hop[start]] == NO_PAGE and not np.any(hop[hop != NO_PAGE] == start)
        )


def test_a_chain_of_redirects_is_followed_only_so_far():
    long, loops = chains(np.array([*range(1, 60), NO_PAGE], dtype=np.int32))
    assert (long[0], loops) == (list(range(MAX_HOPS + 1)), [])


def test_pages_with_the_same_body_are_duplicates_and_one_page_for_titles(tmp_path):
    got = {
        0: ("a", 7),
        1: ("a", 7),
        2: ("a", 8),
        3: ("b", 9),
        4: ("b", 9),
        5: ("c", 0),
        6: ("c", 0),
    }
    visits = [
        visit(page, 9, title=title, content_hash=body, n_bytes=1_000)
        for page, (title, body) in got.items()
    ]
    visits += [visit(7, title="a", content_hash=7, status=404), visit(12, title="a")]
    path = store_of(tmp_path, visits, n_pages=20)
    assert found(path, "duplicate") == [("0", "1,000 bytes", ["1"]), ("3", "1,000 bytes", ["4"])]
    assert found(path, "repeated-title") == [("0", "a", ["2"]), ("5", "c", ["6"])]


def test_a_page_with_links_needs_a_title(tmp_path):
    visits = [
        visit(0, 1),
        visit(1, 2, title=""),
        visit(2, title=""),
        visit(3, 1, title="", status=404),
    ]
    assert found(store_of(tmp_path, visits), "missing-title") == [("1", "", [])]


def test_titles_are_not_judged_where_none_was_recorded(tmp_path):
    path = store_of(tmp_path, [visit(0, 1, title="")])
    with Store.open(path, readonly=True) as store:
        audit = Audit.of(store)
    assert not any("title" in findings.kind for findings in audit.findings)
    assert audit.remarks[0] == "Titles are not judged: the crawl recorded none."


def test_orphans_are_pages_of_a_sitemap_that_nothing_links_to(tmp_path):
    path = store_of(tmp_path, [visit(0, 1, 12), visit(1), visit(2), visit(3), visit(12)], 20)
    named = ["1", "2", "never"]
    with Store.open(path) as store:
        sitemaps = store.sitemaps()
        (row,) = sitemaps.add([f"{HOST}sitemap.xml"], "a.test", "robots", 0)
        sitemaps.add_urls(row.number, [Named(f"{HOST}{name}") for name in named])
        sitemaps.end(row.number, 1.0, 3, "")
    where = f"in {HOST}sitemap.xml"
    assert found(path, "orphan") == [("2", where, []), ("never", where, [])]
    assert found(path, "not-in-sitemap") == [("0", "", []), ("3", "", [])]


def test_slow_pages_are_listed_from_the_slowest(tmp_path):
    visits = [visit(n, elapsed=float(n)) for n in range(5)] + [visit(5, elapsed=9.0, status=500)]
    path = store_of(tmp_path, visits)
    assert found(path, "slow", 2.0) == [("4", "4.0 s", []), ("3", "3.0 s", [])]


def test_the_csv_has_every_related_page_and_the_json_counts(tmp_path, capsys):
    visits = [visit(n, 9, title="=cmd\u202e\x1b[31m") for n in range(5)] + [visit(9, status=404)]
    store_of(tmp_path, visits)
    table, figures = tmp_path / "audit.csv", tmp_path / "audit.json"
    assert (
        run_command(
            "audit", str(tmp_path), "--csv", str(table), "--spreadsheet", "--json", str(figures)
        )
        == 0
    )
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["finding"] for row in rows) == {"broken-link": 5, "repeated-title": 4}
    assert [row["related"] for row in rows[:5]] == [f"{HOST}{n}" for n in range(5)]
    assert rows[5]["detail"].startswith("'=cmd")
    kinds = json.loads(figures.read_text())["findings"]
    assert (kinds["broken-link"]["count"], kinds["slow"]["count"]) == (1, 0)
    assert kinds["broken-link"]["listed"][0]["n_related"] == 5
    printed = capsys.readouterr().out
    assert "linked from 2 more" in printed
    assert "\x1b" not in printed
    assert "\u202e" not in printed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.sqlite"], "none.sqlite: no such crawl store"),
        ([".", "--slow", "-1"], "--slow is '-1'"),
        (["."], "has no crawl.sqlite"),
    ],
)
def test_bad_input_is_one_sentence(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "--slow" in words:
        store_of(tmp_path, [])
    assert told in refusal(capsys, "audit", *words)


@pytest.mark.slow
def test_the_audit_of_a_real_crawl_finds_what_was_planted(path, tmp_path):
    moved = {"/old": "/older", "/older": "/new", "/round": "/about", "/about": "/round"}
    planted = {
        "/": page("/gone", "/old", "/round", "/copy", "/a"),
        "/a": page("/gone", "/"),
        "/copy": page("/gone", "/"),
        "/new": Answer("<title>New</title>new"),
        **{a: Answer(status=301, headers={"Location": b}) for a, b in moved.items()},
    }
    settings = {**ADDON, "CRAWLPRIO_STORE": tmp_path / "crawl.sqlite", "ORDERING": "breadth-first"}
    run_spider(SiteSpider, settings, site=planted, seeds=HOST)
    assert found(path, "broken-link")[0] == ("gone", "HTTP 404", ["", "copy", "a"])
    assert found(path, "redirect-chain") == [
        ("old", "2 redirects, then HTTP 200", ["older", "new"])
    ]
    assert found(path, "redirect-loop") == [("round", "loop after 2 redirects", ["about", "round"])]
    assert [(url, also) for url, _, also in found(path, "duplicate")] == [("copy", ["a"])]


def test_a_redirect_to_itself_is_a_loop_and_a_link_to_a_dead_port_is_broken(path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
    moved = {"Location": "/again"}
    web = {"/": page("/again", "/nowhere", dead), "/again": Answer("", 302, moved)}
    web |= {"/nowhere": Answer("", 302)}
    with Site(web) as site:
        host = f"http://{site.address}/"
        own = {"CRAWLPRIO_STORE": str(path), "CRAWLPRIO_PRIVATE_ADDRESSES": "allow"}
        run_spider(SiteSpider, {**PROJECT, **own}, seeds=host)
    assert found(path, "redirect-loop") == [
        (f"{host}again", "loop after 1 redirects", [f"{host}again"])
    ]
    broken = {url: (detail, related) for url, detail, related in found(path, "broken-link")}
    assert broken == {
        dead: ("robots.txt unreachable (connection refused)", [host]),
        f"{host}nowhere": ("HTTP 302", [host]),
    }
