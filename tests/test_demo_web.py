"""The demo web: the same for the same seed, shaped like the Web, with exactly the stated links."""

from urllib.parse import urljoin

import numpy as np
import pytest
from lxml import html
from protego import Protego
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order
from warcs import write_warc

from crawlprio.demo.recordings import WarcWeb
from crawlprio.demo.web import VOCABULARY, DemoWeb
from crawlprio.errors import ConfigError


@pytest.fixture(scope="module")
def web():
    return DemoWeb(3_000, 40, seed=7)


@pytest.fixture(scope="module")
def large():
    return DemoWeb(60_000, 500, seed=3)


def rows(web):
    return [row.tolist() for row in np.split(web.indices, web.indptr[1:-1])]


def sources(web):
    return np.repeat(np.arange(len(web)), np.diff(web.indptr))


def anchors(body):
    """Return the `href` and the text of each link of a page, by lxml alone."""
    return [(str(a.get("href")), a.text or "") for a in html.fromstring(body).iter("a")]


def links_in_html(web, page):
    """Return the URLs that a crawler finds on a page, by lxml and urllib alone."""
    url = web.url(page)
    answer = web.answer(url)
    if 300 <= answer.status < 400:
        return [answer.headers["Location"]]
    found = [urljoin(url, href) for href, _ in anchors(answer.body)]
    followed = [link.partition("#")[0] for link in found if link.startswith("http")]
    return [link for link in dict.fromkeys(followed) if link != url]


def reachable(web, allowed):
    """Return the pages reachable from the portal through allowed pages alone."""
    kept = allowed[sources(web)] & allowed[web.indices]
    links = (sources(web)[kept], web.indices[kept])
    shape = (len(web), len(web))
    matrix = csr_matrix((np.ones(kept.sum(), dtype=np.int32), links), shape=shape)
    return np.sort(breadth_first_order(matrix, 0, return_predecessors=False))


def test_the_same_seed_gives_the_same_web_bit_for_bit(web):
    again = DemoWeb(3_000, 40, seed=7)
    assert again.indptr.tobytes() == web.indptr.tobytes()
    assert again.indices.tobytes() == web.indices.tobytes()
    assert again.site.tobytes() == web.site.tobytes()
    assert again.urls() == web.urls()
    assert [again.answer(url) for url in web.urls()] == [web.answer(url) for url in web.urls()]


@pytest.mark.parametrize(
    ("n_pages", "n_sites"), [(3_000, 40), (1_500, 3), (2_000, 900), (300, 300)]
)
def test_the_links_of_the_html_are_the_rows_of_the_graph(n_pages, n_sites):
    web = DemoWeb(n_pages, n_sites, seed=n_pages)
    endless = 0
    for page, row in enumerate(rows(web)):
        urls = links_in_html(web, page)
        known = [web.page(url) for url in urls]
        assert [target for target in known if target is not None] == row, web.url(page)
        unknown = [url for url, target in zip(urls, known, strict=True) if target is None]
        endless += len(unknown)
        assert all(url.endswith("/calendar?month=1") for url in unknown), web.url(page)
    assert endless <= 3  # the entrance of the calendar and copies of it


@pytest.mark.parametrize("n_pages", range(1, 30))
def test_a_tiny_web_is_whole(n_pages):
    web = DemoWeb(n_pages, (n_pages + 3) // 4, seed=n_pages)
    assert reachable(web, np.ones(n_pages, dtype=bool)).tolist() == list(range(n_pages))
    assert [web.page(url) for url in web.urls()] == list(range(n_pages))


def test_pages_allowed_by_robots_txt_are_reachable_without_the_others(large):
    assert 0 < np.count_nonzero(~large.allowed) < 0.1 * len(large)
    assert reachable(large, large.allowed).tolist() == np.flatnonzero(large.allowed).tolist()


def test_a_page_mentions_its_topic_in_title_body_and_anchors(web):
    plain = [p for p in range(len(web)) if web.status(p) == 200 and web.original(p) == p]
    for page in plain[::50]:
        words = (web.topic(page), *VOCABULARY[web.topic(page)])
        text = web.answer(web.url(page)).body.decode()
        assert any(word in web.title(page).lower() for word in words)
        assert any(word in text.partition("</h1>")[2].partition("<ul")[0] for word in words)
        for href, anchor in anchors(text.partition("<ul")[2].encode()):
            target = web.page(urljoin(web.url(page), href))
            if target is not None and anchor != "Home":
                near = (web.topic(target), *VOCABULARY[web.topic(target)])
                near += (
                    web.topic(web.original(target)),
                    *VOCABULARY[web.topic(web.original(target))],
                )
                assert any(word in anchor for word in near)


def test_bodies_are_equal_exactly_for_duplicate_pages(web):
    by_body = {}
    for page in range(len(web)):
        if web.status(page) == 200:
            by_body.setdefault(web.answer(web.url(page)).body, []).append(page)
    n_duplicates = 0
    for pages in by_body.values():
        assert [web.original(page) for page in pages] == [web.original(pages[0])] * len(pages)
        assert web.original(pages[0]) in pages
        n_duplicates += len(pages) - 1
    assert 0.02 * len(web) < n_duplicates < 0.06 * len(web)


def test_redirects_lead_on_in_chains_and_in_one_loop(web):
    row = rows(web)
    redirects = [page for page in range(len(web)) if web.status(page) in (301, 302)]
    assert {web.status(page) for page in redirects} == {301, 302}
    assert all(len(row[page]) == 1 for page in redirects)
    chained = [page for page in redirects if row[page][0] in set(redirects)]
    assert len(chained) > 5
    looping = [page for page in chained if row[row[page][0]] == [page]]
    assert len(looping) == 2
    for page in redirects:
        seen = [page]
        while row[seen[-1]][0] in set(redirects) and row[seen[-1]][0] not in seen:
            seen.append(row[seen[-1]][0])
        assert row[seen[-1]][0] not in seen or seen[-1] in looping


def test_error_pages_and_dangling_pages_have_no_links(web):
    degrees = np.diff(web.indptr)
    failing = [page for page in range(len(web)) if web.status(page) >= 400]
    assert {web.status(page) for page in failing} == {404, 500}
    assert degrees[failing].tolist() == [0] * len(failing)
    dangling = np.flatnonzero(degrees == 0)
    assert 0.05 * len(web) < len(dangling) - len(failing) < 0.12 * len(web)


@pytest.mark.parametrize(
    "url",
    [
        "http://www.site0.example/no-such-1.html",
        "http://www.site0.example/nebula-99999999999999.html",
        "http://www.site0.example/\u0663",
        "http://www.site0.example/calendar?month=1",
        "http://www.elsewhere.example/",
        "http://www.site0.example:8080/",
        "http://",
        "",
    ],
)
def test_a_url_without_a_page_answers_404(web, url):
    assert web.page(url) is None
    assert web.answer(url).status == 404


def test_a_host_answers_under_one_scheme_and_redirects_from_the_other(web):
    secure = next(url for url in web.urls() if url.startswith("https:"))
    answer = web.answer(secure.replace("https:", "http:"))
    assert (answer.status, dict(answer.headers)) == (301, {"Location": secure})
    assert web.answer(web.seeds[0].replace("http:", "https:")).headers["Location"] == web.seeds[0]


def test_the_calendar_never_ends(web):
    entrance = next(url for url in web.urls() if "calendar" in url)
    assert entrance.endswith("/calendar?month=0")
    url = entrance
    for month in range(1, 200):
        links = [href for href, _ in anchors(web.answer(url).body)]
        url = urljoin(url, next(link for link in links if link.endswith(f"month={month}")))
        assert web.answer(url).status == 200
        assert web.page(url) is None


def test_robots_txt_agrees_with_allowed_and_crawl_delays(web):
    rules = {
        host: Protego.parse(web.answer(f"http://{host}/robots.txt").body.decode())
        for host in web.hosts
    }
    urls = web.urls()
    said = [rules[web.hosts[web.site[p]]].can_fetch(urls[p], "any") for p in range(len(web))]
    assert said == web.allowed.tolist()
    delays = {host: rule.crawl_delay("any") for host, rule in rules.items()}
    assert {h: d for h, d in delays.items() if d} == web.crawl_delays
    assert len(web.crawl_delays) == 1


@pytest.mark.parametrize(
    ("n_pages", "n_sites", "seed"), [(5, 6, 0), (5, 0, 0), (0, 0, 0), (5, 1, -1), (1 << 29, 1, 0)]
)
def test_an_impossible_web_is_refused(n_pages, n_sites, seed):
    with pytest.raises(ConfigError, match="cannot be made"):
        DemoWeb(n_pages, n_sites, seed)


BODY = b"""<a href="b">b</a> <a href="https://A.test/b#part">again</a> <a href="/">self</a>
<a href="c" rel="nofollow">c</a> <a href="http://elsewhere.test/">elsewhere</a> <a href="d">d</a>"""


def small_warc(tmp_path, **home_headers):
    page = {"Content-Type": "text/html"}
    home = {**page, **{name.replace("_", "-"): text for name, text in home_headers.items()}}
    hidden = b'<meta name="robots" content="nofollow"><a href="/">home</a>'
    records = [
        ("http://a.test/", "200 OK", home, BODY),
        ("https://a.test/b", "200 OK", page, b'<a href="http://a.test/">home</a><a href=d>d</a>'),
        ("http://a.test/c", "200 OK", page, hidden),
        ("http://a.test/d", "301 Moved", {"Location": "/c"}, b'<a href="/">home</a>'),
        ("http://b.test/e", "404 Not Found", page, b'<a href="http://a.test/">home</a>'),
        ("http://b.test/f", "200 OK", {"Content-Type": "text/plain"}, BODY),
    ]
    write_warc(tmp_path / "small.warc.gz", records)
    return WarcWeb(tmp_path / "small.warc.gz")


def rows_of_store(graph):
    return [row.tolist() for row in np.split(graph.indices, graph.indptr[1:-1])]


def test_the_graph_of_a_demo_web_is_the_one_it_was_generated_from():
    web = DemoWeb(500, 10)
    graph = web.graph()
    assert rows_of_store(graph) == [row.tolist() for row in np.split(web.indices, web.indptr[1:-1])]
    assert graph.site.tolist() == web.site.tolist()
    assert list(graph.urls) == web.urls()


def test_a_recorded_demo_web_has_the_graph_of_the_demo_web(tmp_path):
    web = DemoWeb(1_500, 20, seed=4)
    answers = [web.answer(url) for url in web.urls()]
    records = [
        (url, f"{answer.status} X", dict(answer.headers), answer.body)
        for url, answer in zip(web.urls(), answers, strict=True)
    ]
    write_warc(tmp_path / "demo.warc.gz", records)
    graph = WarcWeb(tmp_path / "demo.warc.gz").graph()
    assert rows_of_store(graph) == rows_of_store(web.graph())
    assert graph.site.tolist() == web.site.tolist()
    assert list(graph.urls) == web.urls()


def test_the_graph_of_a_warc_has_the_links_that_a_crawl_would_follow(tmp_path):
    assert rows_of_store(small_warc(tmp_path).graph())[0] == [1, 3]
    assert rows_of_store(small_warc(tmp_path, X_Robots_Tag="nofollow").graph())[0] == []
