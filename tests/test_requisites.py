"""Page requisites: what is found in pages and styles, and how crawls fetch and archive it."""

import signal
import tracemalloc
from typing import Any

import pytest
from archived_crawls import OneRetry, crawl, store_of
from crawls import ADDON, Answer, Site, n_recorded, page, run_spider, signalled
from forked import run_forked
from scrapy.utils.asyncio import call_later
from stores import query
from warcs import check_archive, responses

from crawlprio.plugins.archive.requisite_fetches import (
    MAX_NAMES,
    MAX_STYLE,
    MAX_TOKENS,
    requisites_of_page,
    requisites_of_style,
)

HOST = "http://a.example/"
HTML = {"Content-Type": "text/html"}
CSS = {"Content-Type": "text/css"}


def found(html):
    urls = requisites_of_page(html.encode(), f"{HOST}folder/page")
    return [url.removeprefix(f"{HOST}folder/") for url in urls]


@pytest.mark.parametrize(
    ("html", "urls"),
    [
        ("<img src=a.png><a href=b.png>", ["a.png"]),
        ("<img srcset='a.png, b.png 2x,c,d.png 1w , e '>", ["a.png", "b.png", "c,d.png", "e"]),
        ("<img srcset='a(1).png calc(1px, 2px), b.png'>", ["a(1).png", "b.png"]),
        ("<picture><source srcset='a.webp'><img src=a.png></picture>", ["a.webp", "a.png"]),
        ("<video src=v.mp4 poster=p.jpg><source src=v.webm></video><iframe src=f>", ["p.jpg"]),
        ("<img src=i><link rel='Shortcut ICON' href=f><script src=s.js>", ["f", "s.js", "i"]),
        ("<link rel=canonical href=a><link rel='alternate stylesheet' href=b.css>", ["b.css"]),
        ("<link rel=preload as=font href=a><link rel=preload as=video href=b>", ["a"]),
        ("<style>@import 'a.css'; p { background: URL( b.png ) }</style>", ["a.css", "b.png"]),
        ("<p style='background: url(&quot;a.png&quot;)'>", ["a.png"]),
        ("<table background=a.gif><td background=b.gif>", ["a.gif", "b.gif"]),
        ("<svg><image xlink:href=a.png /><use href='b.svg#x' /><use href='#y' /></svg>",
         ["a.png", "b.svg"]),
        ("<base href=/x/><img src=a.png><img src=' a.png '>", [f"{HOST}x/a.png"]),
        ("<img src='data:image/gif;base64,AA,'><img src=javascript:x><img src><img>", []),
        ("<style>p { color: red }</style><img srcset=' , ,'><img srcset=','>", []),
    ],
)  # fmt: skip
def test_a_page_needs_what_it_shows_and_runs(html, urls):
    assert found(html) == urls


def test_a_style_needs_what_it_imports_and_names_but_no_name_space():
    style = """@charset "utf-8"; @import "a.css" screen; @import url(b.css);
        @import url("c.css") supports(content: "x"); @namespace svg url(http://w3.example/svg);
        @namespace "http://w3.example/x"; /* url(no.png) */
        .a { background: url( 'd.png' ), image-set("e.png" 1x, url(f.png) 2x); content: "no" }
        @font-face { src: url(../g.woff2) format("woff2"), url("h.ttf") }
        @media print { .b { background: url(i\\2e png) } }"""
    urls = requisites_of_style(style.encode(), f"{HOST}css/s.css")
    names = (
        "css/a.css css/b.css css/c.css css/d.png css/e.png css/f.png g.woff2 css/h.ttf css/i.png"
    )
    assert urls == [HOST + name for name in names.split()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "token", ["(", ";", "url(", "@import ", "\\", '"', "{}", "a-", "x(", "url(a)"]
)
def test_a_style_of_a_million_characters_takes_no_more_memory_than_its_text(token):
    """A list of its tokens took 258 MB, in a page of 1.8 kB of gzip, and 3 s of the crawl."""
    style = (token * MAX_STYLE)[:MAX_STYLE].encode()
    requisites_of_page(b"<style>%s</style>" % style[: MAX_STYLE // 10], HOST)  # loads Numba
    tracemalloc.start()
    requisites_of_style(style, HOST)
    requisites_of_page(b"<style>url(%s</style>" % style, HOST)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MAX_STYLE


def test_hostile_pages_and_styles_are_read_up_to_their_bounds():
    many = 20_000
    for srcset in ("," * many, " " * many, "a(" * many, "a " * many, "a,b " * many):
        requisites_of_page(f"<img srcset='{srcset}'>".encode(), HOST)
    long = f"<style>/*{'x' * MAX_STYLE}*/@import 'late.css'</style>"
    assert found(long) == []
    assert found(f"<style>{';' * MAX_TOKENS}@import 'late.css'</style>") == []
    names = "".join(f"url({n})" for n in range(2 * MAX_NAMES))
    assert len(requisites_of_style(names.encode(), HOST)) == MAX_NAMES
    images = "".join(f"<img src={n}>" for n in range(2 * MAX_NAMES))
    assert len(found(images)) == MAX_NAMES


@pytest.mark.parametrize(
    ("style", "header", "name"),
    [
        ("url(\u00e9)".encode(), "", "%C3%A9"),
        ("url(?\u00e9)".encode("latin-1"), "text/css; charset=latin1", "?%C3%A9"),
        ('@charset "latin1"; p { a: url(\u00e9) }'.encode("latin-1"), "", "%C3%A9"),
        ("\ufeffurl(\u00e9)".encode("utf-16"), "text/css; charset=latin1", "%C3%A9"),
        (b"url(\\e9 b\\)c\\\\d)", "", "%C3%A9b)c/d"),
        (b"url('a\\\nb')", "", "ab"),
    ],
    ids=["utf-8", "header", "charset", "mark", "escapes", "joined"],
)
def test_the_names_in_a_style_are_decoded(style, header, name):
    assert requisites_of_style(style, HOST, header) == [HOST + name]


WEB = {
    "/robots.txt": Answer("User-agent: *\nDisallow: /secret\n"),
    "/": Answer(
        '<link rel=stylesheet href=/s.css><img src=/a.png srcset="/b.png 2x"><img src=/moved>'
        '<img src=/secret.png><script src="http://cdn.test/x.js"></script>'
        "<a href=/p>p</a><a href=/picture>whole</a>",
        headers=HTML,
    ),
    "/p": Answer("<link rel=stylesheet href=/s.css><img src=/lost.png><a href=/q>", headers=HTML),
    "/q": Answer("<title>q</title><a href=/><img src=/picture>", headers=HTML),
    "/picture": Answer("not HTML", headers={"Content-Type": "image/png"}),
    "/s.css": Answer('@import "t.css"; p{background:url(/b.png)}', headers=CSS),
    "/t.css": Answer("@font-face{src:url(f.woff2)} @import '/s.css'", headers=CSS),
    "/a.png": Answer("A"),
    "/b.png": Answer("B"),
    "/f.woff2": Answer("F"),
    "/moved": Answer("gone", 301, headers={"Location": "/a2.png"}),
    "/lost.png": Answer("", 302, headers={"Location": "//["}),
    "/a2.png": Answer("A2"),
    "cdn.test/x.js": Answer("X"),
    "b.example/robots.txt": Answer(""),
}
PAGES = ["/", "/p", "/picture", "/q"]
OWN = ["/a.png", "/a2.png", "/b.png", "/f.woff2", "/lost.png", "/moved", "/s.css", "/t.css"]


def kept(folder):
    """Return each requisite's path, whether it was answered, and the remark."""
    rows = query(store_of(folder), "SELECT url, fetched_at, remark FROM requisites ORDER BY url")
    return [(url.removeprefix(HOST), int(at is not None), remark) for url, at, remark in rows]


def facts(folder):
    """Return what a store has of pages, links and visits, but for times."""
    visits = "SELECT page, status, targets, anchors, outside, error FROM visits"
    return [query(store_of(folder), sql) for sql in ("SELECT id, url, depth FROM pages", visits)]


def archived(folder):
    return [
        record.url.removeprefix(HOST.rstrip("/"))
        for record in responses(folder / "warc")
        if not record.url.endswith("/robots.txt")
    ]


@pytest.mark.parametrize("limit", [0, 3])
def test_they_come_after_the_pages_and_change_nothing_about_them(tmp_path, limit):
    without, with_them = tmp_path / "without", tmp_path / "with"
    without.mkdir()
    with_them.mkdir()
    plain = crawl(without, WEB, CLOSESPIDER_PAGECOUNT=limit)
    run = crawl(with_them, WEB, CLOSESPIDER_PAGECOUNT=limit, CRAWLPRIO_REQUISITES="all")
    assert run.reason == plain.reason == ("closespider_pagecount" if limit else "finished")
    pages = archived(without)
    assert archived(with_them)[: len(pages)] == pages
    rest = [path for path in archived(with_them)[len(pages) :] if path != "http://cdn.test/x.js"]
    if limit:
        assert len(pages) == limit - 1  # robots.txt counts
        assert {"/s.css", "/t.css", "/f.woff2", "/a.png"} <= set(rest)
    else:
        assert sorted(pages) == PAGES
        assert sorted(rest) == OWN
    assert facts(with_them) == facts(without)
    check_archive(with_them / "warc", store_of(with_them))
    assert plain.stats["response_received_count"] == (limit or 5)
    # The robots.txt of the other host is the only response more that Scrapy counts.
    n_counted = run.stats["response_received_count"] - plain.stats["response_received_count"]
    assert n_counted == 1


def test_each_says_what_became_of_it(tmp_path):
    run = crawl(tmp_path, WEB, CRAWLPRIO_REQUISITES="all")
    assert kept(tmp_path) == [
        ("a.png", 1, ""),
        ("a2.png", 1, ""),
        ("b.png", 1, ""),
        ("f.woff2", 1, ""),
        ("lost.png", 1, "status 302"),
        ("moved", 1, "status 301"),
        ("picture", 1, "archived before"),
        ("s.css", 1, ""),
        ("secret.png", 0, "forbidden by robots.txt"),
        ("t.css", 1, ""),
        ("http://cdn.test/x.js", 1, ""),
    ]
    assert run.stats["crawlprio/requisites/fetched"] == 9
    assert run.stats["crawlprio/requisites/failed"] == 1
    assert "/secret.png" not in archived(tmp_path)


def test_domain_leaves_out_other_registered_domains(tmp_path):
    web = {
        "/": Answer(
            "<img src=http://img.a.example/1><img src=http://b.example/2>"
            "<link rel=stylesheet href=http://css.a.example/s.css>",
            headers=HTML,
        ),
        "css.a.example/s.css": Answer("@import 'http://b.example/t.css'; @import 'u.css'"),
    }
    web["css.a.example/s.css"] = web["css.a.example/s.css"]._replace(headers=CSS)
    crawl(tmp_path, web, CRAWLPRIO_REQUISITES="domain")
    assert [url for url, *_ in kept(tmp_path)] == [
        "http://css.a.example/s.css",
        "http://css.a.example/u.css",
        "http://img.a.example/1",
    ]


def test_private_addresses_are_refused_as_to_pages(tmp_path):
    web = {"/": Answer("<img src=http://10.0.0.1/a><img src=/b>", headers=HTML)}
    settings = {"CRAWLPRIO_PRIVATE_ADDRESSES": "seeds", "ROBOTSTXT_OBEY": False}
    crawl(tmp_path, web, CRAWLPRIO_REQUISITES="all", **settings)
    ((_, answered, remark),) = [row for row in kept(tmp_path) if "10.0.0.1" in row[0]]
    assert answered == 0
    assert "private address" in remark


@pytest.mark.parametrize(
    ("bound", "paths"),
    [
        ({"CRAWLPRIO_MAX_REQUISITES": 3}, ["/s.css", "/a.png", "/b.png"]),
        ({"CRAWLPRIO_MAX_REQUISITES_PER_PAGE": 2}, ["/s.css", "/a.png", "/lost.png", "/c.png"]),
        ({"CRAWLPRIO_MAX_REQUISITE_BYTES": 45}, ["/s.css", "/a.png"]),
        (
            {"CRAWLPRIO_MAX_REQUISITE_BYTES_PER_PAGE": 45},
            ["/s.css", "/a.png", "/lost.png", "/c.png"],
        ),
        ({"DOWNLOAD_MAXSIZE": 150}, ["/s.css", "/a.png", "/b.png", "/lost.png"]),
    ],
)
def test_their_number_and_size_are_bounded(tmp_path, bound, paths):
    first = "<link rel=stylesheet href=/s.css><img src=/a.png><img src=/b.png><a href=/p>"
    web = {
        "/": Answer(first, headers=HTML),
        "/p": Answer("<img src=/lost.png><img src=/c.png>", headers=HTML),
        "/s.css": Answer("@import '/s.css'; @import '/s.css'", headers=CSS),
        "/a.png": Answer("A" * 20),
        "/b.png": Answer("B" * 20),
        "/c.png": Answer("C" * 160),
    }
    crawl(tmp_path, web, CRAWLPRIO_REQUISITES="all", **bound)
    assert [path for path in archived(tmp_path) if path not in ("/", "/p")] == paths


def test_of_one_that_was_retried_the_last_answer_is_archived_once(tmp_path):
    answers = iter([Answer("busy", 503), Answer("broken", 500), Answer("ready")])

    def answer(host, path):
        if path == "/a":
            return next(answers)
        return Answer("<img src=/a>", headers=HTML) if path == "/" else None

    settings = {
        **ADDON,
        "RETRY_ENABLED": True,
        "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"),
        "CRAWLPRIO_WARC": str(tmp_path / "warc"),
        "CRAWLPRIO_REQUISITES": "domain",
        "CRAWLPRIO_MAX_BACK_OFF": 0,
    }
    run_spider(OneRetry, settings, site=({}, answer))
    assert [record.body for record in responses(tmp_path / "warc")] == [b"<img src=/a>", b"ready"]


class Pausing:
    """Pauses the crawl when the server is asked for the first image, and goes on later."""

    crawlers: list[Any] = []

    @classmethod
    def from_crawler(cls, crawler):
        cls.crawlers.append(crawler)
        return cls()

    @classmethod
    def answer(cls, host, path):
        if path != "/1":
            return None
        current = cls.crawlers[-1].engine
        current.pause()
        call_later(0.3, current.unpause)
        return Answer("1")


def test_a_paused_crawl_fetches_them_once_it_goes_on(tmp_path):
    web = {"/": Answer("<img src=/1><img src=/2>", headers=HTML), "/2": Answer("2")}
    settings = {
        **ADDON,
        "EXTENSIONS": {Pausing: 1},
        "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"),
        "CRAWLPRIO_WARC": str(tmp_path / "warc"),
        "CRAWLPRIO_REQUISITES": "all",
    }
    with Site(web, Pausing.answer) as site:
        assert run_spider(OneRetry, settings, site=site).reason == "finished"
        assert site.paths() == ["/", "/1", "/2"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"CRAWLPRIO_WARC": None}, "CRAWLPRIO_WARC names no folder to archive them in"),
        ({"CRAWLPRIO_STORE": None}, "CRAWLPRIO_STORE is None, so there is nowhere to record them"),
    ],
)
def test_where_they_cannot_be_kept_the_crawl_is_refused_in_one_sentence(
    tmp_path, settings, problem
):
    run = crawl(tmp_path, {"/": page()}, CRAWLPRIO_REQUISITES="all", **settings)
    assert problem in run.messages()[0]
    assert run.reason == "crawlprio_refused"


def command(site, folder, *words):
    return [
        *("crawl", f"http://{site.address}/", "--requisites", "all"),
        *("--folder", str(folder / "job"), "--warc", str(folder / "warc")),
        *("-s", "CRAWLPRIO_COMPILE=False", *words),
    ]


def n_answered(folder):
    sql = "SELECT count(*) FROM requisites WHERE fetched_at IS NOT NULL"
    return n_recorded(store_of(folder), sql)


def test_a_killed_crawl_archives_each_of_them_once(tmp_path):
    pages = {
        f"/{n}": Answer(
            f"<title>{n}</title><link rel=stylesheet href=/{n}.css><a href=/{(n + 1) % 8}>"
            + "".join(f"<img src=/{n}/{k}.png>" for k in range(10)),
            headers=HTML,
        )
        for n in range(8)
    }
    styles = {f"/{n}.css": Answer(f"p{{background: url(/{n}.gif)}}", headers=CSS) for n in range(8)}
    images = {f"/{n}/{k}.png": Answer(f"{n} {k}") for n in range(8) for k in range(10)}
    images |= {f"/{n}.gif": Answer(f"gif {n}") for n in range(8)}
    with Site({"/": pages["/0"], **pages, **styles, **images}) as site:
        line = command(site, tmp_path, "--delay", "0.01")
        for least in (1, 50):
            signalled(
                *("crawlprio", line, tmp_path, signal.SIGKILL),
                lambda said, least=least: n_answered(tmp_path) > least,
            )
        run_forked("crawlprio", line, tmp_path, check=True)
        got = sorted(path for path in archived_at(site, tmp_path) if path not in ("/", *pages))
    assert got == sorted([*styles, *images])
    check_archive(tmp_path / "warc", store_of(tmp_path))


def archived_at(site, folder):
    return [
        record.url.removeprefix(f"http://{site.address}")
        for record in responses(folder / "warc")
        if not record.url.endswith("/robots.txt")
    ]


def test_ctrl_c_ends_the_crawl_at_once_and_the_rest_is_fetched_when_it_is_resumed(tmp_path):
    web = {"/": Answer("<img src=/a><img src=/b>", headers=HTML), "/a": Answer("A")}
    with Site({**web, "/b": Answer("B")}) as site:
        line = command(
            site, tmp_path, "-s", "LOG_LEVEL=INFO", "-s", "ROBOTSTXT_OBEY=False", "--delay"
        )
        status, said = signalled(
            *("crawlprio", [*line, "1000"], tmp_path, signal.SIGINT),
            lambda said: "fetching 2 page" in said,
        )
        assert status == 0, said
        assert archived_at(site, tmp_path) == ["/"]
        run_forked("crawlprio", [*line, "0"], tmp_path, check=True)
        assert archived_at(site, tmp_path) == ["/", "/a", "/b"]
    check_archive(tmp_path / "warc", store_of(tmp_path))


def test_with_several_workers_the_requisites_of_all_pages_are_fetched(tmp_path):
    pages = {
        f"/{n}": Answer(f"<img src=/{n}.png><a href=/{n + 1}>", headers=HTML) for n in range(6)
    }
    images = {f"/{n}.png": Answer(f"image {n}") for n in range(6)}
    with Site({"/": pages["/0"], **pages, **images}) as site:
        line = [*command(site, tmp_path, "--delay", "0"), "--workers", "2"]
        done = run_forked("crawlprio", line, tmp_path, check=True)
        assert set(images) <= set(archived_at(site, tmp_path)), done.stderr
    check_archive(tmp_path / "warc", store_of(tmp_path))
