"""A Location is read as a link is: by the same parser, by the same rules."""

import pytest
from crawls import Answer, page
from hostile import BUNDLED, RawSite, crawl, raw

from crawlprio.demo.recordings import page_key
from crawlprio.measure.receipt_document import make_receipt
from crawlprio.web.anchors import Resolver
from crawlprio.web.urls import location_url, parse_url

AT = "http://a.test/d/1?q"
LOCATIONS = {
    r"\b1": "http://a.test/b1",
    r"/x\b2": "http://a.test/x/b2",
    r"\\a.test\b3": "http://a.test/b3",
    "http:///a.test/b4": "http://a.test/b4",
    "http:/b5": "http://a.test/b5",
    "http:b6": "http://a.test/d/b6",
    "//a.test/b7": "http://a.test/b7",
    "///a.test/b8": "http://a.test/b8",
    "/a/%2e%2e/b9": "http://a.test/b9",
    "/a/.%2E/b10": "http://a.test/b10",
    "/a/./%2e/b11": "http://a.test/a/b11",
    "http://A.TEST./b12": "http://a.test./b12",
    "HTTP://a.test:80/b13": "http://a.test/b13",
    "http://u:p@a.test/b14": "http://a.test/b14",
    "//u@a.test/b15": "http://a.test/b15",
    "\t /b 16 \t": "http://a.test/b%2016",
    "/b17#part": "http://a.test/b17",
    "/b18?": "http://a.test/b18",
    "b19/../b19": "http://a.test/d/b19",
    "/{b20}": "http://a.test/%7Bb20%7D",
    "/%7eb21": "http://a.test/%7eb21",
    "?b22": "http://a.test/d/1?b22",
    "http://%61.test/b23": "http://a.test/b23",
    "http://\uff41.test/b24": "http://a.test/b24",
    "/b\u00fc25?\u00fc": "http://a.test/b%C3%BC25?%C3%BC",
}
"""By the value of the header: where it leads from `AT`."""

NOWHERE = ["http://", "http://[::1", "http://a b/", "mailto:a@a.test", "javascript:1", "data:,x"]
NOWHERE += ["ftp://a.test/", "java\tscript:1", "file:///etc/passwd", "/" + 2_100 * "x"]


def test_a_location_leads_where_a_link_with_its_value_leads():
    resolver = Resolver(parse_url(AT), "utf-8", lambda: None)
    for location, url in LOCATIONS.items():
        assert location_url(location.encode(), AT) == url
        if "\t" not in location:  # which the parser of pages strips first
            assert resolver.resolve(location.partition("#")[0]) == url
    assert [location_url(location.encode(), AT) for location in NOWHERE] == [None] * len(NOWHERE)
    assert location_url(b"", AT) == AT


def test_bytes_that_are_no_text_are_kept_as_they_are():
    assert location_url(b"/\xe4?\xe4\xff", AT) == "http://a.test/%E4?%E4%FF"


def redirecting(locations, robots=b""):
    """A site whose pages /d/0, /d/1, ... redirect there; all others are empty."""

    def answer(host, path):
        if path == "/robots.txt":
            return raw(robots)
        if path == "/":
            return raw(b"".join(b"<a href=/d/%d>x</a>" % n for n in range(len(locations))))
        if path.startswith("/d/") and path[3:].isdigit():
            location = b"Location: " + locations[int(path[3:])]
            return b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n" + location + b"\r\n\r\n"
        return raw(b"<title>t</title>")

    return answer


def crawled(locations, robots=b"", **settings):
    with RawSite(redirecting([each.encode() for each in locations], robots)) as site:
        run = crawl(site, {"ROBOTSTXT_OBEY": True, **settings})
    return run, [(host, path) for host, path in site.requests]


def test_a_crawl_asks_for_what_the_link_would_lead_to(tmp_path):
    locations = [each for each in LOCATIONS if "d/1" not in LOCATIONS[each]]
    run, asked = crawled(locations)
    expected = {LOCATIONS[each].partition("//")[2].partition("/") for each in locations}
    assert {(host, f"/{path}") for host, _, path in expected} <= set(asked)
    assert [host for host, path in asked if path == "/robots.txt"] == ["a.test", "a.test."]
    assert {host for host, _ in asked} == {"a.test", "a.test."}
    assert run.stats["crawlprio/pages_fetched"] == 1 + 2 * len(locations)


@pytest.mark.parametrize(
    "location", ["/a/%2e%2e/private/x", r"\private\x", r"/a/..\private/x", "//u:p@a.test/private/x"]
)
def test_no_spelling_of_a_location_passes_robots_txt(location):
    run, asked = crawled([location], b"User-agent: *\nDisallow: /private\n")
    assert [path for _, path in asked] == ["/robots.txt", "/", "/d/0"]
    assert run.stats["robotstxt/forbidden"] == 1


def test_a_location_that_leads_nowhere_is_no_page_and_said(path):
    run, asked = crawled(NOWHERE, CRAWLPRIO_STORE=str(path))
    assert len(asked) == 2 + len(NOWHERE)
    assert make_receipt(path)["failed"] == {"HTTP 302": len(NOWHERE)}
    assert run.stats["crawlprio/refused/redirect-scheme"] == 6


def test_a_numeric_host_is_the_same_site_after_a_redirect_as_in_a_link():
    moved = Answer("", 302, {"Location": "http://134744072/x"})
    run = crawl({"/": page("/to"), "/to": moved}, {"ROBOTSTXT_OBEY": True})
    assert [(fetch.host, fetch.path) for fetch in run.site.fetches][-2:] == [
        ("8.8.8.8", "/robots.txt"),
        ("8.8.8.8", "/x"),
    ]


def test_the_robots_txt_of_a_host_is_asked_for_without_a_name_and_password():
    """Under the add-on, Scrapy's redirects keep them."""
    stock = {
        "crawlprio.middlewares.LocationMiddleware": None,
        "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": 600,
    }
    middlewares = {**BUNDLED["DOWNLOADER_MIDDLEWARES"], **stock}
    run, asked = crawled(["http://u:p@a.test/x"], DOWNLOADER_MIDDLEWARES=middlewares)
    assert [path for _, path in asked].count("/robots.txt") == 1
    assert not any("robots.txt" in message for message in run.messages())


def test_a_recording_finds_the_target_of_a_redirect_by_the_same_rules():
    for location, url in LOCATIONS.items():
        assert page_key(location_url(location.encode(), AT) or "") == page_key(url)
