"""Which URLs look like traps, and what a URL is without its session."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlprio.web.scope import Traps, without_noise

TOKEN = "0123456789abcdefghij"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a.org/", ""),
        ("http://a.org/x/x/x/y", ""),
        ("http://a.org/x/y/x/y/x/z/x", "repeated-segments"),
        ("http://a.org/x/x/x/x?q", "repeated-segments"),
        ("http://a.org/b///c", ""),
        ("http://a.org/b////", "repeated-segments"),
        ("http://a.org/x?a/x/x/x/x", ""),
        ("http://a.org/" + "/".join(map(str, range(20))), ""),
        ("http://a.org/" + "/".join(map(str, range(21))), "long-path"),
        ("http://a.org/?" + "&".join(16 * ["a"]), ""),
        ("http://a.org/?" + "&".join(17 * ["a"]), "parameters"),
        ("http://a.org/?" + ";".join(17 * ["a"]), "parameters"),
        ("http://a.org/" + 17 * "a;&", ""),
    ],
)
def test_a_url_that_looks_endlessly_generated_is_refused(url, reason):
    assert Traps().refuses(url) == reason
    assert Traps(None, None, None).refuses(url) == ""


@given(
    path=st.text("ab/", max_size=12),
    max_repeats=st.sampled_from([None, 0, 1, 2, 3]),
    max_segments=st.sampled_from([None, 0, 1, 2, 5]),
)
def test_a_path_with_few_segments_is_free(path, max_repeats, max_segments):
    traps = Traps(max_repeats, max_segments)
    if path.count("/") + 1 <= traps.n_free_segments:
        assert traps.refuses(f"http://a.org/{path}") == ""
    segments = path.split("/")
    most = max(map(segments.count, segments))
    assert bool(traps.refuses(f"http://a.org/{path}")) == (
        (max_segments is not None and len(segments) > max_segments)
        or (max_repeats is not None and most > max_repeats)
    )


@pytest.mark.parametrize(
    ("url", "without"),
    [
        ("http://a.org/x;jsessionid=1A?q=1", "http://a.org/x?q=1"),
        ("http://a.org/(S(abcdefghijklmnopqrstuvwx))/x", "http://a.org/x"),
        ("http://a.org/(S(abc))/x", "http://a.org/(S(abc))/x"),
        ("http://a.org/?CFID=1&CFTOKEN=2&x=3", "http://a.org/?x=3"),
        ("http://a.org/?a=1;zenid=2", "http://a.org/?a=1"),
        ("http://a.org/?x=1&osCsid=2", "http://a.org/?x=1"),
        ("http://a.org/?PHPSESSID=1", "http://a.org/"),
        ("http://a.org/?ASPSESSIONIDABC=1&b", "http://a.org/?b"),
        (f"http://a.org/?sid={TOKEN}&b", "http://a.org/?b"),
        (f"http://a.org/?session_id={TOKEN}", "http://a.org/"),
        ("http://a.org/?sid=12", "http://a.org/?sid=12"),
        ("http://a.org/?side=1&obsess=2&cfo=3", "http://a.org/?side=1&obsess=2&cfo=3"),
        ("http://a.org/phpsessid=1", "http://a.org/phpsessid=1"),
        ("http://a.org/?", "http://a.org/?"),
        ("http://a.org/?;jsessionid=1", "http://a.org/"),
        ("http://a.org/b/..;jsessionid=1", "http://a.org/b/..;jsessionid=1"),
        ("http://a.org/%2E;jsessionid=1/x", "http://a.org/%2E;jsessionid=1/x"),
        ("http://;jsessionid=/x", "http://;jsessionid=/x"),
        ("http://a;jsessionid=1.org/x;jsessionid=2", "http://a;jsessionid=1.org/x"),
        ("http://a.org/d/?C=M;O=A", "http://a.org/d/"),
        ("http://a.org/d/?C=N&O=D", "http://a.org/d/"),
        ("http://a.org/d/?C=X;O=A", "http://a.org/d/?C=X;O=A"),
        ("http://a.org/d/?a=1&C=M;O=A", "http://a.org/d/?a=1&C=M;O=A"),
        ("http://a.org/d/?C=M;O=A&a=1", "http://a.org/d/?C=M;O=A&a=1"),
        ("http://a.org/?utm_source=x&a=1&utm_campaign=y", "http://a.org/?a=1"),
        ("http://a.org/?a=1&gclid=x", "http://a.org/?a=1"),
        ("http://a.org/?autm_source=x&clid=1", "http://a.org/?autm_source=x&clid=1"),
    ],
)
def test_a_url_loses_its_session_and_what_else_does_not_change_the_page(url, without):
    assert without_noise(url) == without


@given(
    name=st.sampled_from(
        [
            *("aspsessionidx", "cfid", "cftoken", "jsessionid", "oscsid", "phpsessid", "zenid"),
            *("utm_medium", "fbclid", "gclid", "msclkid"),
            *("sess", "session", "sessionid", "session_id", "sid"),
        ]
    ),
    upper=st.lists(st.booleans(), min_size=16, max_size=16),
    before=st.sampled_from(["", "a=1&", "b;"]),
    after=st.sampled_from(["", "&c=2", ";d"]),
)
def test_session_names_are_known_in_any_case_and_place(name, upper, before, after):
    mixed = "".join(
        char.upper() if is_upper else char for char, is_upper in zip(name, upper, strict=False)
    )
    stripped = without_noise(f"http://a.org/?{before}{mixed}={TOKEN}{after}")
    assert stripped == f"http://a.org/?{before}{after[1:]}".rstrip("?&;")
