"""What parse_page finds in a page, and how normalise_url normalises a URL."""

from html import escape
from typing import NamedTuple
from urllib.parse import urljoin

import can_ada
import pytest
from browsers import in_browser, running_browser
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor

from crawlprio.web.anchors import read_anchors, read_title
from crawlprio.web.html import MAX_ANCHOR_LENGTH, MAX_LINKS, parse_page
from crawlprio.web.urls import MAX_URL_LENGTH, host_of, normalise_url

PAGE = "http://example.org/dir/page.html?q=1"


def urls(body, page=PAGE, content_type=""):
    raw = body.encode() if isinstance(body, str) else body
    return parse_page(raw, page, content_type=content_type).urls


class Link(NamedTuple):
    url: str
    anchor: str
    nofollow: bool


def links_of(page):
    return list(map(Link, page.urls, page.anchors, page.nofollows))


def links(body):
    return links_of(parse_page(body.encode(), PAGE))


def test_links_of_a_and_area_are_absolute_and_in_page_order():
    body = """
        <a href="b">B</a> <a href='/a'>A</a> <map><area href=../c alt="C"></map>
        <a href="//other.example/d">D</a> <a href="?q=2">E</a> <link href="no"> <a name="no">no</a>
    """
    assert links(body) == [
        Link("http://example.org/dir/b", "B", False),
        Link("http://example.org/a", "A", False),
        Link("http://example.org/c", "C", False),
        Link("http://other.example/d", "D", False),
        Link("http://example.org/dir/page.html?q=2", "E", False),
    ]


def test_a_url_is_listed_once_with_its_first_nonempty_anchor():
    body = '<a href="/x"> </a><a href="/y">y</a><a href="/x#part">two</a><a href="/x">three</a>'
    assert links(body) == [
        Link("http://example.org/x", "two", False),
        Link("http://example.org/y", "y", False),
    ]


REFRESHES = {
    "0;url=/x": "/x",
    "0; URL='/x'": "/x",
    '  1.5\t,\nUrl = "/x" ignored': "/x",
    ".5;/x": "/x",
    "0 /x": "/x",
    "0,,/x": "/dir/,/x",
    "0;;/x": "/dir/;/x",
    "0;'/x": "/x",
    "0;'/x'y": "/x",
    "0;url=x y#part": "/dir/x%20y",
    "0;url /x": "/dir/url%20/x",
    "0;ur=/x": "/dir/ur=/x",
    "0;url=url=/x": "/dir/url=/x",
    "0;url=http://other.example/": "http://other.example/",
    "0.0.0;/x": "/x",
    "0": None,
    "0;": None,
    "0;url=": None,
    "url=/x": None,
    ";/x": None,
    "-1;/x": None,
    "0s;/x": None,
    "0\u00a0/x": None,
    "0;javascript:alert(1)": None,
}
"""The `content` of a `meta http-equiv=refresh`, and where it leads from `PAGE`."""


@pytest.mark.parametrize(("content", "target"), REFRESHES.items())
def test_a_refresh_is_a_link_without_text(content, target):
    body = (
        f'<title>t</title><meta HTTP-EQUIV=Refresh content="{escape(content)}"><a href="/b">b</a>'
    )
    url = None if target is None else urljoin(PAGE, target)
    refreshed = [] if url is None else [Link(url, "", False)]
    assert links(body) == [*refreshed, Link("http://example.org/b", "b", False)]


def test_only_a_refresh_is_a_refresh_and_each_is_a_link():
    refresh = "<meta http-equiv={} content='0;url={}'>".format
    body = refresh("refresh", "/a") + refresh("refreshed", "/no") + refresh("REFRESH", "/b")
    page = f"<template>{refresh('refresh', '/no')}</template>{body}<base href=/dir/>"
    assert urls(page) == ["http://example.org/a", "http://example.org/b"]
    assert urls(refresh("refresh", "c") + "<base href=/base/>") == ["http://example.org/base/c"]


@pytest.mark.parametrize("judged", [pytest.param("chromium", marks=in_browser)])
def test_a_browser_reads_refreshes_as_written_here(judged):
    """Each page has loaded before the next one begins, and the last one leads somewhere."""
    went = {}

    def answer(route):
        page = route.request.frame.page
        if route.request.url != PAGE:
            went.setdefault(page, route.request.url)
            route.abort()
            return
        meta = f'<meta http-equiv=refresh content="{escape(contents[page])}">'
        route.fulfill(content_type="text/html; charset=utf-8", body=meta)

    with running_browser() as browser:
        context = browser.new_context()
        context.route("**/*", answer)
        last, contents = context.new_page(), {}
        for content in REFRESHES:
            page = context.new_page()
            contents[page] = content.replace("1.5", "0.5")
            page.goto(PAGE)
        contents[last] = "2;/x"
        last.goto(PAGE)
        while last not in went:
            last.wait_for_timeout(50)
        found = {contents[page]: went.get(page) for page in contents}
    for content, target in REFRESHES.items():
        url = None if target is None else urljoin(PAGE, target)
        seen = (found[content.replace("1.5", "0.5")] or PAGE).partition("#")[0]
        assert (None if seen == PAGE else seen) == url, content


@pytest.mark.parametrize(
    "href", ["", "#top", "page.html?q=1", "HTTP://EXAMPLE.org:80/dir/page.html?q=1#x"]
)
def test_links_to_the_page_itself_are_dropped(href):
    assert urls(f'<a href="{href}">self</a><a href="/x">x</a>') == ["http://example.org/x"]


def test_the_first_base_counts_wherever_it_is():
    body = '<a href="x">x</a><base target="_top"><base href="/first/"><base href="/second/">'
    assert urls(body) == ["http://example.org/first/x"]


@pytest.mark.parametrize("base", ["http://[", "javascript:alert(1)", "data:text/html,x"])
def test_an_invalid_base_is_ignored(base):
    assert urls(f'<base href="{base}"><a href="x">') == ["http://example.org/dir/x"]


def test_nofollow_is_a_token_of_rel_in_any_case():
    body = """<a href=1 rel="External NoFollow">1</a><a href=2 rel="nofollowing">2</a>
              <a href=3 rel="ugc sponsored">3</a><a href=4 rel>4</a>"""
    assert [link.nofollow for link in links(body)] == [True, False, False, False]


def test_a_url_is_nofollow_only_if_all_its_links_are():
    body = "<a href=1 rel=nofollow>1</a><a href=1>1</a>" + 2 * "<a href=2 rel=nofollow></a>"
    assert [link.nofollow for link in links(body)] == [False, True]


@pytest.mark.parametrize(
    ("inside", "anchor"),
    [
        (" two \n <b>wo</b>rds ", "two words"),
        ("<img><img alt=' a  picture '>", "a picture"),
        ("word<img alt=picture>", "word"),
        ("<span> </span>", "from title"),
        ("<img alt=''>", "from title"),
    ],
)
def test_the_anchor_is_the_text_or_else_the_picture_or_else_the_title(inside, anchor):
    assert links(f'<a href=x title=" from title">{inside}</a>')[0].anchor == anchor


def test_anchors_and_titles_are_truncated():
    page = parse_page(f"<title>{'t ' * 999}</title><a href=x>{'é' * 9999}</a>".encode(), PAGE)
    assert page.anchors[0] == "é" * MAX_ANCHOR_LENGTH
    assert page.title == ("t " * 999)[: MAX_ANCHOR_LENGTH - 1]


@pytest.mark.parametrize(
    "href",
    [
        *("javascript:void(0)", "mailto:a@b.example", "tel:1", "ftp://h.example/", "data:,x"),
        *("about:blank", "http://", "http://[", "http://h.example:99999/", "http://a b/"),
        *("http://exa&#0;mple.com/", "file:///etc", "blob:http://a.test/1", "//", "http:\\\\"),
        *("view-source:http://a.test/", "http://%00.test/", "ws://a.test/", "http://xn--.test/"),
        *("intent://a.test#x", "x:"),
    ],
)
def test_what_is_not_http_or_not_a_url_is_not_a_link(href):
    page = parse_page(f'<a href="{href}">x</a>'.encode(), PAGE)
    assert (page.urls, page.n_dropped) == ([], 0)


@pytest.mark.parametrize(
    ("href", "url"),
    [
        (" \n x y ", "http://example.org/dir/x%20y"),
        ("x\ny\tz", "http://example.org/dir/xyz"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("https://h.example:443/", "https://h.example/"),
        ("HTTP://H.EXAMPLE:8080/q", "http://h.example:8080/q"),
        ("http://h.example:8080", "http://h.example:8080/"),
        ("http://user:secret@h.example/", "http://h.example/"),
        ("/a/../b/./c", "http://example.org/b/c"),
        ("\\\\h.example\\x", "http://h.example/x"),
        ("/x?", "http://example.org/x"),
        ("/x??", "http://example.org/x??"),
        ("/x?a&amp;b", "http://example.org/x?a&b"),
        ("/[a]|b?{c}`", "http://example.org/%5Ba%5D%7Cb?%7Bc%7D%60"),
        ("http://[::1]:80/[", "http://[::1]/%5B"),
    ],
)
def test_links_are_normalised(href, url):
    assert urls(f'<a href="{href}">x</a>') == [url]


def test_too_long_urls_are_dropped_and_counted():
    fits = "x" * (MAX_URL_LENGTH - len("http://example.org/"))
    far = "z" * 10**6
    hrefs = [f"/{fits}", f"/{fits}y", "/" + "é" * 500, far, f"HTTP://h/{far}", f"javascript:{far}"]
    hrefs += [f"http://example.org/{fits}", f"http://example.org/{fits}y"]
    page = parse_page("".join(f"<a href='{href}'></a>" for href in hrefs).encode(), PAGE)
    assert list(map(len, page.urls)) == [MAX_URL_LENGTH]
    assert page.n_dropped == 5


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<a href='ü?ü'>ü</a>".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("<meta charset=latin1><a href='ü?ü'>ü</a>".encode("latin-1"), ""),
        ("<meta charset=latin1><a href='ü?&uuml;'>ü</a>".encode("latin-1"), ""),
        ("<a href='ü?ü'>ü</a>".encode("latin-1"), ""),
        (b"<meta charset=latin1><a href='&uuml;?&uuml;'>&uuml;</a>", ""),
    ],
)
def test_the_path_is_utf_8_and_the_query_has_the_encoding_of_the_page(body, content_type):
    page = parse_page(body, PAGE, content_type=content_type)
    assert links_of(page) == [Link("http://example.org/dir/%C3%BC?%FC", "ü", False)]


def test_robots_meta_is_read_in_any_case():
    cases = {
        "": (False, False),
        "<meta name=robots content='index, follow'>": (False, False),
        "<META NAME=ROBOTS CONTENT='NoIndex,NoFollow'>": (True, True),
        "<meta name=' Robots ' content=none>": (True, True),
        "<meta name=robots content=noindex><meta name=robots content=nofollow>": (True, True),
        "<meta name=robots content='noindex'>": (False, True),
        "<meta name=otherbot content=none>": (False, False),
        "<meta name=robots><meta name>": (False, False),
        "<meta name=robots content='max-image-preview:none, max-snippet: -1'>": (False, False),
        "<meta name=robots content='max-image-preview:none nofollow'>": (True, False),
        "<meta name=robots content='unavailable_after: Fri, 1 Jan 2027, none'>": (True, True),
        "<meta name=MyBot content=nofollow><meta name=robots content=all>": (True, False),
        "<meta name=mybot2 content=nofollow><meta name=my content=none>": (False, False),
    }
    pages = [parse_page(body.encode(), PAGE, robot={"mybot"}) for body in cases]
    assert [(page.nofollow, page.noindex) for page in pages] == list(cases.values())


@pytest.mark.parametrize(
    ("body", "title", "url"),
    [
        ("<title> \n A  title\n</title><title>second</title><a href=x>", "A title", "dir/x"),
        ("<title></title><title>second</title><base href=/b/><a href=x>", "", "b/x"),
        ("<svg><title>icon</title><base href=/s/></svg><a href=x>", "", "dir/x"),
        (100 * "<svg><title>icon</title></svg>" + "<title>late</title><a href=x>", "late", "dir/x"),
        ("<svg><g><title>a</title><base href=/s/></g></svg><base href=/b/><a href=x>", "", "b/x"),
        ("<svg><desc><title>within</title></desc></svg><a href=x>", "within", "dir/x"),
        ("<math><title>no</title></math><title>late</title><a href=x>", "late", "dir/x"),
    ],
)
def test_title_and_base_are_the_first_of_html(body, title, url):
    """Those of an icon are the icon's; a browser and libxml2 agree."""
    page = parse_page(body.encode(), PAGE)
    assert (page.title, urls(body)) == (title, [f"http://example.org/{url}"])
    root = HtmlResponse(PAGE, body=body, encoding="utf-8").selector.root
    assert read_title(root) == title
    link = f"http://example.org/{url}"
    text = body.replace("<a href=x>", "<a href=x>text</a>")
    root = HtmlResponse(PAGE, body=text, encoding="utf-8").selector.root
    assert read_anchors(root, PAGE, "utf-8", [link]) == {link: "text"}


def test_shadow_roots_are_content_and_other_templates_are_not():
    body = """<x-nav><template shadowrootmode="open"><a href=1>one</a><b>bold</b><div>
        <template ShadowRootMode=CLOSED>in<!-- -->ner <a href=2>two</a></template></div></template>
        <a href=3>three</a></x-nav><template><a href=no>no</a></template>
        <x-foot><template shadowrootmode="closed"><a href=4>four</a></template>
        <template shadowrootmode="open"><a href=no>no second</a></template></x-foot>"""
    page = parse_page(body.encode(), PAGE, want_text=True)
    assert [url.rpartition("/")[2] for url in page.urls] == ["1", "2", "3", "4"]
    assert page.anchors == ["one", "two", "three", "four"]
    assert page.text == "onebold inner two three four"


def test_shadow_roots_by_the_thousand_cost_what_their_content_does():
    nested = 300 * "<div><template shadowrootmode=open>" + "<a href=deep>x</a>"
    many = 3_000 * "<x-a><template shadowrootmode=open><a href=x>x</a></template></x-a>"
    assert urls(nested) == ["http://example.org/dir/deep"]
    assert urls(many) == ["http://example.org/dir/x"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("12<!-- -->% of 3<!-- --> user<!-- -->s", "12% of 3 users"),
        ("a<!---->b<!-->c<! x>d<?y?>e</ z>f", "abcdef"),
        (
            "a<script>x</script>b<style>x</style>c<noscript>x</noscript>d<template>x</template>e",
            "abcde",
        ),
        ("a<b><!-- -->b</b><!-- --><i>c<!-- --></i>d", "abcd"),
        ("a<p><!-- -->b<!-- --></p>c", "a b c"),
        ("a<!-- --><br><!-- -->b", "a b"),
        ("1<iframe><a href=/no>x</a></iframe>2<noembed><a href=/no>x</a></noembed>3", "123"),
        ("1<noframes><a href=/no>x</a></noframes>2<iframe><!--</iframe>3-->", "123-->"),
    ],
)
def test_a_text_goes_on_after_what_is_not_shown(body, text):
    page = parse_page(body.encode(), PAGE, want_text=True)
    assert (page.text, page.urls) == (text, [])


def test_text_is_the_visible_text_and_only_on_request():
    body = b"""<html><head><title>title</title><style>style</style></head><body><h1>One</h1>two
        t<b>h<i>re</i></b><a href=x>e</a><wbr><a name=x></a>!<p>four<p>five<script>script</script>
        <noscript><noscript>no<a href=y>script</a></noscript></noscript><!-- comment -->
        <template>template</template><ul><li>six<li>seven</ul></body></html>"""
    page = parse_page(body, PAGE, want_text=True)
    assert page.text == "One two three! four five six seven"
    assert page.urls == [
        "http://example.org/dir/x",
        "http://example.org/dir/y",
    ]
    assert parse_page(body, PAGE).text == ""
    assert links_of(parse_page(body, PAGE)) == links_of(page)


def test_an_xlink_outside_svg_and_mathml_is_not_a_link():
    body = """<a xlink:href=1>1</a><svg><a XLINK:HREF=2>2</a><a href xlink:href=3>3</a></svg>
              <a name=x xlink:href=4>4</a><math><a xlink:href=5>5</a></math><a href=6>6</a>"""
    assert [link.anchor for link in links(body)] == ["2", "3", "5", "6"]
    assert urls("<a href=x></a><base xlink:href=/no/>") == ["http://example.org/dir/x"]
    assert urls("<a href=x></a><svg><base xlink:href=/b/></svg>") == ["http://example.org/dir/x"]
    assert urls("<svg><base xlink:href=/b/></svg><base href=/c/><a href=x></a>") == [
        "http://example.org/c/x"
    ]


@pytest.mark.parametrize(
    ("inside", "anchor"),
    [
        ("a \u00a6 b", "a \u00a6 b"),
        ("\u00a6", "\u00a6"),
        ("a\u2028b\u00a0 c", "a b c"),
        ("a\u202eb\x07c", "a b c"),
        ("a  b", "a b"),
        (" a", "a"),
        ("a ", "a"),
        (600 * " " + "a", "a"),
        (MAX_ANCHOR_LENGTH * "a" + " b", MAX_ANCHOR_LENGTH * "a"),
        ((MAX_ANCHOR_LENGTH - 1) * "a" + " b", (MAX_ANCHOR_LENGTH - 1) * "a"),
    ],
)
@pytest.mark.parametrize("n_others", [0, 1, 100])
def test_an_anchor_has_single_spaces_and_only_printable_characters(inside, anchor, n_others):
    others = "".join(f"<a href=o{i}>other</a>" for i in range(n_others))
    found = links(f"<meta charset=utf-8><a href=x>{inside}</a>{others}")
    assert [link.anchor for link in found] == [anchor, *(n_others * ["other"])]


@pytest.mark.parametrize("page", ["", "nonsense", "about:blank", "file:///x", "http://[", "\udc80"])
def test_absolute_links_are_found_without_a_page_url(page):
    assert urls("<a href=/x></a><a href=http://h.example/>h</a>", page) == ["http://h.example/"]


def test_links_inside_links_are_all_found_and_anchors_are_read_near_their_links():
    nested = b"<svg>" + b"".join(b"<a href=/%d>" % i for i in range(2000)) + b"deep"
    found = links_of(parse_page(nested, PAGE))
    assert [link.url for link in found] == [f"http://example.org/{i}" for i in range(2000)]
    assert [link.anchor for link in found] == 1801 * [""] + 199 * ["deep"]


def test_the_first_of_a_hundred_thousand_links_are_found():
    flat = b"".join(b"<a href=/%d>x</a>" % i for i in range(100_000))
    assert urls(flat) == [f"http://example.org/{i}" for i in range(MAX_LINKS)]


def test_broken_markup_yields_the_links_that_linkextractor_finds():
    body = b"""<table><a href=1>one<td><a href="2>">two</a></b></table><a href='3'<p>three
        <A HREF = 4 >four</A <a href=5>five</a><div <a href=6>six</a><p><a href=7>seven"""
    response = HtmlResponse(PAGE, body=body)
    theirs = [link.url for link in LinkExtractor(deny_extensions=[]).extract_links(response)]
    assert [normalise_url(url) for url in theirs] == urls(body)


def resolved(href, page):
    """Return where an ASCII `href` leads, step by step; an empty query does not make it longer."""
    try:
        url = (can_ada.parse(page) + href.partition("#")[0]).href
        return normalise_url(url[:-1] if url.find("?") == len(url) - 1 else url)
    except ValueError:
        return None


PIECES = st.sampled_from(
    [
        *("a", "x.html", "A-b_c~d", "1", "index.php", "..a", "a..b", ".", "..", "...", "x."),
        *("/", "/", "/", "//", "///", "\\", "?", "?a=1&b=%2e", "??", "&", "=", ";", ",", "%2e"),
        *("%", "@", "u:p@", ":", "|", "[", "`", "'", '"', "<", " ", "*", "!", "$", "(", "+", "#"),
        *("http:", "https:", "http://", "https://", "HTTP://", "ftp://", "mailto:", "x:"),
    ]
)
HOSTS = st.one_of(
    st.sampled_from(
        [
            *("h.example", "H.example", "h.example.", "h..example", ".example", "-.example", "h_"),
            *("1", "1.2.3", "127.0.0.1", "256.256.256.256", "4294967296", "0x7f.1", "a.0x", "a.1"),
            *("a.09", "a.1.", "0.0.0.08", "xn--a", "xn--", "xn--bcher-kva.example", "a.xn--zz.b"),
            *("a--b", "ab--c", "a" * 64, ".".join(130 * ["a"]), "", ".", "..", "h:", "h:80"),
            *("h:443", "h:8080", "h:08080", "h:0", "h:65536", "h:99999999999", "h:80:80", "[::1]"),
        ]
    ),
    st.text("abx01.-:_", max_size=12),
)
PAGES = st.sampled_from(
    [
        PAGE,
        "https://u:p@h.example:81/a[b]/c|d?e#f",
        "http://[::1]/x",
        "http://h.example",
        "http://h.example/a/b/../c//d",
        "http://h.example/a@b/?/x/",
        "ftp://h.example/a/b",
        "file:///c:/a/b",
        "about:blank",
        "http://h.example/" + (MAX_URL_LENGTH - 30) * "a" + "/b",
    ]
)


@settings(max_examples=examples(500), deadline=None)
@given(
    href=st.one_of(
        st.lists(PIECES, max_size=8).map("".join),
        st.builds(
            "{}{}{}".format,
            st.sampled_from(["http://", "https://", "//"]),
            HOSTS,
            st.lists(PIECES, max_size=5).map(lambda pieces: "".join(["/", *pieces])),
        ),
        st.text("ab/.?~_-%:", max_size=12),
    ),
    page=PAGES,
)
@example(href="a" * 13, page="http://h.example/" + (MAX_URL_LENGTH - 30) * "a" + "/b")
@example(href="a" * 14, page="http://h.example/" + (MAX_URL_LENGTH - 30) * "a" + "/b")
@example(href="a" * 13 + "?", page="http://h.example/" + (MAX_URL_LENGTH - 30) * "a" + "/b")
@example(href="http://1.2.3/x", page=PAGE)
@example(href="http://h:80/x", page=PAGE)
@example(href="?x", page=PAGE)
@example(href="/?x", page=PAGE)
@example(href="a?", page=PAGE)
def test_a_link_leads_where_the_url_parser_says(href, page):
    expected = resolved(href, page)
    body = f'<a href="{escape(href)}">x</a>'
    assert urls(body, page) == ([] if expected in (None, normalise_url(page)) else [expected])


def test_a_host_has_no_port():
    urls = ["http://h.example/", "http://h.example:8080/x:y", "http://[::1]:80/", "https://[::1]/"]
    assert [host_of(url) for url in urls] == ["h.example", "h.example", "::1", "::1"]
