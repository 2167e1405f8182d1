"""The whole graph of a web, whether generated or recorded in a WARC file or a crawl store."""

import numpy as np
from warcs import write_warc

from crawlprio.demo.recordings import WarcWeb
from crawlprio.demo.web import DemoWeb

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


def rows(graph):
    return [row.tolist() for row in np.split(graph.indices, graph.indptr[1:-1])]


def test_the_graph_of_a_demo_web_is_the_one_it_was_generated_from():
    web = DemoWeb(500, 10)
    graph = web.graph()
    assert rows(graph) == [row.tolist() for row in np.split(web.indices, web.indptr[1:-1])]
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
    assert rows(graph) == rows(web.graph())
    assert graph.site.tolist() == web.site.tolist()
    assert list(graph.urls) == web.urls()


def test_the_graph_of_a_warc_has_the_links_that_a_crawl_would_follow(tmp_path):
    assert rows(small_warc(tmp_path).graph())[0] == [1, 3]
    assert rows(small_warc(tmp_path, X_Robots_Tag="nofollow").graph())[0] == []
