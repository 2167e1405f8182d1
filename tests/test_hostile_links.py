"""Crawls of endless, malformed and huge pages end, bounded and counted."""

import itertools
import json
import logging

import pytest
from crawls import Answer, Site, page
from hostile import crawl, html, refused

from crawlprio.store import Store
from crawlprio.web.html import MAX_ANCHOR_LENGTH, parse_page
from crawlprio.web.urls import MAX_LINK_CHARACTERS, MAX_LINKS

NO_DEPTH = {"CRAWLPRIO_MAX_STATIC_DEPTH": None, "CRAWLPRIO_MAX_DYNAMIC_DEPTH": None}
OFF = {"CRAWLPRIO_HEURISTICS": False, "CLOSESPIDER_PAGECOUNT": 300}


def calendar(host, path):
    """A page per month, with links to the next month and the one before."""
    month = int(path.strip("/").partition("/")[2] or 0)
    return page(f"/month/{month + 1}", f"/month/{month - 1}")


def deeper(host, path):
    """A relative link on a page that is served for every path below it."""
    return page("a/")


def sessions(host, path):
    """A new session for each visitor, in every form."""
    token = f"{next(SESSION):032x}"
    where = path.partition("?")[0].partition(";")[0].rsplit("/", 1)[-1]
    links = [f"/{n}" for n in range(3) if str(n) != where]
    return page(
        *(f"{link}?PHPSESSID={token}" for link in links),
        *(f"{link};jsessionid={token.upper()}" for link in links),
        *(f"{link}?x=1&sid={token}" for link in links),
    )


SESSION = itertools.count(1)


def facets(host, path):
    """A shop whose filters accumulate in the query, in every order."""
    chosen = [name for name in path.partition("?")[2].split("&") if name]
    return page(*("/?" + "&".join([*chosen, f"f{n}=1"]) for n in range(3) if len(chosen) < 40))


def longer(host, path):
    """Each page has a longer name than the one before."""
    return page(path + "x" * 100)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("trap", "settings", "reason", "most"),
    [
        (calendar, {}, "too-deep", 32),
        (calendar, {**NO_DEPTH, "CRAWLPRIO_MAX_PAGES_PER_PATTERN": 40}, "pattern-budget", 81),
        (calendar, {**NO_DEPTH, "CRAWLPRIO_MAX_PAGES_PER_SITE": 50}, "site-budget", 50),
        (deeper, NO_DEPTH, "repeated-segments", 4),
        (deeper, {**NO_DEPTH, "CRAWLPRIO_MAX_REPEATED_SEGMENTS": None}, "long-path", 20),
        (facets, {**NO_DEPTH, "CRAWLPRIO_MAX_QUERY_PARAMETERS": 8}, "parameters", 165),
        (longer, NO_DEPTH, "long-url", 21),
    ],
)
def test_a_trap_ends_at_its_own_bound_and_is_counted(trap, settings, reason, most):
    run = crawl(({}, trap), settings)
    assert run.reason == "finished"
    assert refused(run)[f"refused/{reason}"] > 0
    assert len(run.site.paths()) <= most


@pytest.mark.parametrize("trap", [calendar, deeper, sessions])
def test_with_the_heuristics_off_only_the_crawls_budget_ends_a_trap(trap):
    """So the guards are what ended the crawls above."""
    run = crawl(({}, trap), OFF)
    assert run.reason == "closespider_pagecount"


def test_sessions_in_links_do_not_make_new_pages():
    run = crawl(({}, sessions), NO_DEPTH)
    assert run.reason == "finished"
    assert sorted(run.site.paths()) == ["/", "/0", "/0?x=1", "/1", "/1?x=1", "/2", "/2?x=1"]


def test_endless_sites_under_one_domain_share_its_budget():
    def farm(host, path):
        number = int(host.partition(".")[0][1:] or 0)
        return page(*(f"http://h{10 * number + n}.farm.test/" for n in range(1, 11)))

    run = crawl(
        ({}, farm),
        {"CRAWLPRIO_MAX_PAGES_PER_DOMAIN": 100, "CONCURRENT_REQUESTS": 4},
        seeds="http://h0.farm.test/",
        follow="web",
    )
    assert run.reason == "finished"
    assert len(run.site.paths()) == 100
    assert refused(run)["refused/domain-budget"] > 0


def test_user_names_and_passwords_are_neither_sent_nor_stored(tmp_path):
    moved = Answer(status=302, headers={"Location": "http://user:secret@a.test/z"})
    pages = {"/": page("http://user:secret@a.test/x", "/y"), "/y": moved}
    run = crawl(pages, {"CRAWLPRIO_STORE": tmp_path / "crawl.sqlite"})
    assert run.reason == "finished"
    assert sorted(run.site.paths()) == ["/", "/x", "/y", "/z"]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"http://a.test/z" in stored
    with Store.open(tmp_path / "crawl.sqlite", readonly=True) as store:
        pages_found = store.load_pages()
        assert pages_found.urls(range(len(pages_found))) == [
            f"http://a.test/{name}" for name in ("", "x", "y", "z")
        ]
        assert "secret" not in json.dumps(list(pages_found._ids))


@pytest.mark.parametrize(
    ("bomb", "cut"),
    [
        (b"<div>" * 1_000_000, "tags"),
        (b"<ul><li>" * 9_000, "tags"),
        (b"<p>" + b"".join(b"<b id=%d>" % n for n in range(900)) + b"<p>x" * 200_000, "tags"),
        (b"<a " + b"".join(b"a%d=1 " % n for n in range(200_000)) + b">", "attributes"),
        (b"<a " + b"".join(b'a%d="><b" ' % n for n in range(200_000)) + b">", "attributes"),
        (b"<table><tr><td>" * 200_000, "tags"),
        (b"<" * 5_000_000, "tags"),
        (b"<a href='" * 500_000, "attributes"),
        (b"\0" * 5_000_000, ""),
    ],
)
def test_a_page_made_to_be_slow_to_parse_is_read_in_part(bomb, cut):
    """Read whole, most of these would take the parser minutes or gigabytes."""
    first = b"<title>t</title><a href=/first>x</a>"
    found = parse_page(first + bomb, "http://a.test/", want_text=True)
    assert (found.title, found.urls[0]) == ("t", "http://a.test/first")
    assert found.cut in (cut, "") if cut == "tags" else found.cut == cut


def test_a_long_base_expands_short_links_only_to_the_bound_of_a_page(path):
    """26 kB on the wire became 20.8 MB in the store, out of scope and so in no budget."""
    base = f"http://b.test/{'x' * 2_000}/"
    links = "".join(f"<a href={n}>{n}" for n in range(MAX_LINKS))
    body = f"<base href='{base}'>{links}"
    parsed = parse_page(body.encode(), "http://a.test/")
    assert sum(map(len, parsed.urls)) <= MAX_LINK_CHARACTERS < sum(map(len, parsed.urls)) + 2_083
    assert parsed.cut == "links"
    assert parsed.urls == [f"{base}{n}" for n in range(len(parsed.urls))]
    assert len(parsed.anchors) == len(parsed.nofollows) == len(parsed.urls)
    run = crawl({"/": html(body)}, {"CRAWLPRIO_STORE": str(path)})
    assert refused(run)["cut/links"] == 1
    assert path.stat().st_size < 2_000_000


def test_the_total_anchor_text_of_a_page_is_bounded():
    links = "".join(f"<a href=/{n}>{'a' * 600}</a>" for n in range(3_000))
    parsed = parse_page(links.encode(), "http://a.test/")
    assert len(parsed.urls) == 3_000
    lengths = list(map(len, parsed.anchors))
    assert lengths == [MAX_ANCHOR_LENGTH] * 1_000 + [0] * 2_000


def test_a_store_at_its_size_limit_closes_the_crawl_which_can_be_resumed(tmp_path):
    def many(host, path):
        return page(*(f"http://b.test/{path[1:]}{n}{'x' * 1_000}" for n in range(300)), f"{path}x")

    settings = {
        "CRAWLPRIO_HEURISTICS": False,
        "CRAWLPRIO_STORE": "crawl.sqlite",
        "JOBDIR": str(tmp_path),
        "CLOSESPIDER_PAGECOUNT": 30,
    }
    with Site({}, many) as site:
        full = crawl(site, {**settings, "CRAWLPRIO_MAX_STORE_BYTES": 2_000_000})
        n_full = len(site.paths())
        path = tmp_path / "crawl.sqlite"
        n_bytes = path.stat().st_size
        more = crawl(site, {**settings, "CRAWLPRIO_MAX_STORE_BYTES": None})
    assert full.reason == "crawlprio_failed"
    assert full.messages(logging.ERROR) == [
        f"{path}: the limit of CRAWLPRIO_MAX_STORE_BYTES is reached; raise it, then resume the "
        "crawl."
    ]
    assert n_bytes <= 2_000_000
    assert more.reason == "closespider_pagecount"
    paths = site.paths()
    assert 0 < n_full < len(paths)
    # Only the visits that did not fit are repeated.
    assert len(paths) - len(set(paths)) <= 16
