"""Recorded webs: a WARC file and a crawl store answer as recorded."""

import gzip
import logging

import numpy as np
import pytest
from stores import record_visits, table, visit
from warcs import write_warc

from crawlprio.demo.recordings import StoreWeb, WarcWeb, open_web
from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE
from crawlprio.store import Store

HTML = [("Content-Type", "text/html")]
PAGES = [
    ("http://a.test/", "200 OK", HTML, b"<a href=/b>b</a>"),
    ("https://a.test:443/b?x=1", "200 OK", HTML, b"<p>b</p>"),
    ("https://b.test/gone", "410 Gone", HTML, b"gone"),
    ("http://a.test/old", "302 Found", [("Location", "/b?x=1")], b""),
]


@pytest.fixture(params=[True, False], ids=["gzipped", "plain"])
def warc(request, tmp_path):
    write_warc(tmp_path / "a.warc", PAGES, gzipped=request.param)
    return WarcWeb(tmp_path / "a.warc")


def test_the_pages_of_a_warc_are_in_the_order_recorded(warc):
    assert len(warc) == 4
    urls = ["http://a.test/", "https://a.test/b?x=1", "https://b.test/gone", "http://a.test/old"]
    assert warc.urls() == [warc.url(page) for page in range(4)] == urls
    assert warc.hosts == ["a.test", "b.test"]


def test_the_seed_of_a_warc_is_the_home_page_of_its_largest_host(warc):
    assert warc.seeds == ["http://a.test/"]


def test_without_a_home_page_the_seed_is_the_first_page_of_the_largest_host(tmp_path):
    write_warc(tmp_path / "a.warc", [PAGES[2], PAGES[1], PAGES[3]])
    assert WarcWeb(tmp_path / "a.warc").seeds == ["https://a.test/b?x=1"]


def test_bodies_are_decoded_and_lack_connection_headers(tmp_path):
    packed = gzip.compress(b"hello")
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    headers = [
        ("Transfer-Encoding", "chunked"),
        ("Content-Encoding", "gzip"),
        ("Content-Length", "999"),
        ("Connection", "close"),
        ("X-Kept", "yes"),
    ]
    write_warc(tmp_path / "a.warc.gz", [("http://a.test/", "200 OK", headers, chunked)])
    answer = WarcWeb(tmp_path / "a.warc.gz").answer("http://a.test/")
    assert (answer.body, dict(answer.headers)) == (b"hello", {"X-Kept": "yes"})


@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("cut", [40, 150, 3_000])
def test_a_truncated_warc_is_served_up_to_the_cut_with_a_warning(tmp_path, caplog, gzipped, cut):
    noise = np.random.default_rng(1).integers(256, size=5_000, dtype=np.uint8).tobytes()
    records = [*PAGES, ("http://a.test/long", "200 OK", HTML, noise)]
    path = tmp_path / "a.warc"
    offsets = write_warc(path, records, gzipped)
    path.write_bytes(path.read_bytes()[: offsets[-1] + cut])
    with caplog.at_level(logging.WARNING):
        web = WarcWeb(path)
    (warning,) = caplog.messages
    assert f"{path} is damaged at record 6 (" in warning
    assert warning.endswith("the 4 pages before it are served.")
    assert web.answer("http://a.test/long").status == 404
    assert [web.answer(url).body for url, *_ in PAGES] == [body for *_, body in PAGES]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"hello\n" * 100, "is not a WARC file"),
        (gzip.compress(b"hello\n" * 100), "is not a WARC file"),
        (b"", "has no response over http"),
    ],
    ids=["text", "gzipped text", "empty"],
)
def test_a_file_that_is_not_a_warc_is_refused(tmp_path, content, sentence):
    path = tmp_path / "x.warc.gz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=sentence) as refused:
        WarcWeb(path)
    assert str(path) in str(refused.value)


def test_a_missing_warc_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"No such file"):
        WarcWeb(tmp_path / "none.warc")


@pytest.fixture
def store(tmp_path):
    """A store: a home page with links, a redirect, a page fetched twice, a failure, one waiting."""
    names = ("", "moved", "twice", "failed", "waiting", "robbed")
    outside = [("http://b.test/?a=1&b=2", "B & b")]
    anchors = ["the <twice>", "", "failed one", "w"]
    return record_visits(
        tmp_path / "crawl.sqlite",
        table(*(f"https://a.test/{name}" for name in names)),
        visit(NO_PAGE, 0),
        visit(0, 2, 1, 3, 4, anchors=anchors, title="A & co", text="x < y", outside=outside),
        visit(2, 0, title="early"),
        visit(1, 2, status=301),
        visit(3, status=503),
        visit(5, status=0, error="robots.txt"),
        visit(2, 3, 0, title="late"),
    )


def test_a_store_answers_redirects_and_failures_as_such(store):
    web = StoreWeb(store)
    moved = web.answer("https://a.test/moved")
    assert (moved.status, dict(moved.headers)) == (302, {"Location": "https://a.test/twice"})
    paths = ("failed", "waiting", "robbed", "unheard-of")
    assert [web.answer(f"http://a.test/{p}").status for p in paths] == [503, 404, 404, 404]


def test_a_store_without_visits_is_refused(tmp_path):
    Store.create(tmp_path / "empty.sqlite").close()
    with pytest.raises(StoreError, match="has no visit"):
        StoreWeb(tmp_path / "empty.sqlite")


def test_a_recording_is_opened_according_to_its_content(store, tmp_path):
    write_warc(tmp_path / "a.sqlite", PAGES)
    write_warc(tmp_path / "b.sqlite", PAGES, gzipped=False)
    assert isinstance(open_web(tmp_path / "a.sqlite"), WarcWeb)
    assert isinstance(open_web(tmp_path / "b.sqlite"), WarcWeb)
    assert isinstance(open_web(store.rename(tmp_path / "c.warc.gz")), StoreWeb)
    (tmp_path / "d.warc").write_text("neither")
    with pytest.raises(StoreError, match="neither a WARC file nor a crawl store"):
        open_web(tmp_path / "d.warc")
    with pytest.raises(StoreError, match="No such file"):
        open_web(tmp_path / "none")
