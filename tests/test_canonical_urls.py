"""A canonical URL stands for exactly those URLs that Scrapy's fingerprinter treats as one page."""

from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.utils.request import fingerprint
from w3lib.url import canonicalize_url

from crawlprio.web.urls import are_canonical, canonical, is_of_page

PIECES = st.sampled_from(
    [
        *("a", "B", "%41", "%7e", "~", "é", ".", "..", "/", "//", "?", "&", "=", "+", "#", "%23"),
        *(";", " "),
    ]
)
URLS = st.builds(
    lambda head, tail: Request(head + "".join(tail)).url,
    st.sampled_from(
        ["http://a.test", "https://a.test:8080/", "http://A.test/", "http://a.test/b?"]
    ),
    st.lists(PIECES, max_size=8),
)


@given(URLS)
def test_it_is_the_url_that_the_fingerprinter_hashes(url):
    assert canonical(url) == canonicalize_url(url)


@given(st.lists(URLS, max_size=3))
def test_many_at_once_are_only_taken_for_canonical_if_each_is(urls):
    if are_canonical(urls):
        assert all(canonical(url) == url and is_of_page(url) for url in urls)


def test_usual_urls_are_taken_for_canonical_at_once():
    usual = ["http://a.test/", "http://1.2.3.4:59999/b.html", "https://a.test:80/b?c=d"]
    assert are_canonical(usual)
    for other in ("http://a.test:65536/", "http://a.test/#b", "http://a.test/\nhttp://a.test/"):
        assert not are_canonical([*usual, other])


@given(URLS, URLS)
def test_it_is_equal_where_fingerprints_are(one, other):
    are_one_page = fingerprint(Request(one)) == fingerprint(Request(other))
    assert (canonical(one) == canonical(other)) == are_one_page


def test_a_fragment_does_not_make_another_page():
    assert canonical("http://a.test/b.html#c") == canonical("http://a.test/b.html#")
    assert canonical("http://a.test/b.html#c") == "http://a.test/b.html"
