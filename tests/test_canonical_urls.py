"""A canonical URL stands for exactly those URLs that Scrapy's fingerprinter treats as one page."""

from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.utils.request import fingerprint
from w3lib.url import canonicalize_url

from crawlprio.web.urls import canonical

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


@given(URLS, URLS)
def test_it_is_equal_where_fingerprints_are(one, other):
    are_one_page = fingerprint(Request(one)) == fingerprint(Request(other))
    assert (canonical(one) == canonical(other)) == are_one_page


def test_a_fragment_does_not_make_another_page():
    assert canonical("http://a.test/b.html#c") == canonical("http://a.test/b.html#")
    assert canonical("http://a.test/b.html#c") == "http://a.test/b.html"
