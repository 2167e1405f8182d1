"""A robots.txt costs no more than its size allows, and has the meaning that Protego reads in it."""

from __future__ import annotations

import tracemalloc
from time import process_time

import pytest
from hostile import RawSite, crawl, raw, refused
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protego import Protego

from crawlprio.middlewares.robot_rules import BoundedRobotParser
from crawlprio.web import robots
from crawlprio.web.robots import rules_for

AGENTS = ["crawlprio", "Mozilla/5.0 (compatible; my-bot/1.0; +https://a.test/)", "x", ""]
LINES = st.one_of(
    st.sampled_from(
        [
            *("User-agent: *", "User-agent: crawlprio", "user agent bot", "Useragent: My-Bot*"),
            *("User-agent:", "User-agent: crawl*", "User-agent: **", "User-agent: x", "moz"),
            *("Disallow: /", "Disallow: /a", "Allow: /a/b", "Disallow:", "disalow /x*y$"),
            *("Allow: /index.html", "Disallow: /*.php$", "Disallow: /a$b", "Disallow /a # no"),
            *("Crawl-delay: 3", "crawl delay 5", "Crawl-delay: x", "Noindex: /x", "Noindex:/x"),
            *("Sitemap: http://a.test/s", "Host: a.test", "# nothing", "", "a b c", ":"),
            *("User-agent: my-bot/1.0", "User-agent: bot", "User agent: compatible", "\ufeff"),
        ]
    ),
    st.text(max_size=12),
)
URLS = ["/", "/a", "/a/b", "/xay", "/x.php", "/a$b", "/index.html", "/robots.txt", "/%61?q", "/b"]


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.lists(LINES, max_size=16).map("\n".join), st.sampled_from(AGENTS))
@example("User-agent: x\nDisallow: /\n\nUser-agent: *\nDisallow: /a", "x")
@example("User-agent: x\nSitemap: http://a.test/s\nUser-agent: *\nDisallow: /a", "y")
@example("User-agent: x\nNoindex: /\nUser-agent: *\nDisallow: /a", "x")
def test_the_rules_for_one_robot_match_those_of_the_whole_file(text: str, agent: str) -> None:
    whole = Protego.parse(text)
    parser = BoundedRobotParser(text.encode("utf-8", "ignore"), None)
    for url in URLS:
        url = f"http://a.test{url}"
        assert parser.allowed(url, agent) == whole.can_fetch(url, agent)
    assert parser.crawl_delay(agent) == whole.crawl_delay(agent)
    assert list(parser.rp.sitemaps) == list(whole.sitemaps)


def many_robots(n_robots: int, n_rules: int) -> bytes:
    """Rules that apply to many robots at once, as a parser copies them."""
    names = "".join(f"User-agent: r{n}\n" for n in range(n_robots))
    rules = "".join(f"Disallow: /{n}\n" for n in range(n_rules))
    return f"{names}User-agent: *\n{rules}".encode()


@pytest.mark.parametrize(
    "body",
    [
        many_robots(15_000, 20_000),
        b"User-agent: *\n" + b"Disallow:/*a*a*aab\n" * 27_000,
        b"User-agent: *\n" + b"Disallow: /" + b"*" * 500_000,
        b"User-agent: *\n" + b"Disallow:/a\n" * 43_000,
        b"User-agent:x\n" * 40_000,
        b"a:\n" * 170_000,
        b"\n" * 524_000,
        b"User-agent: crawlprio\nUser-agent: c\n" * 14_000,
        b"User-agent: *\nDisallow:/" + b"%41" * 170_000,
        b"\xff" * 524_000,
    ],
    ids=["robots", "stars", "one-rule", "rules", "names", "other", "empty", "twice", "quoted", "x"],
)
def test_no_robots_txt_takes_a_second_or_100_mb(body: bytes) -> None:
    """15,000 robots times 20,000 rules took 36 s and 1.3 GB of a crawl's only thread."""
    tracemalloc.start()
    began = process_time()
    parser = BoundedRobotParser(body, None)
    parser.allowed("http://a.test/" + "a" * 2_000, "crawlprio")
    parser.crawl_delay("crawlprio")
    seconds = process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 3  # Measured with tracemalloc, which makes it about five times as slow.
    assert peak < 100_000_000


def test_rules_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "MAX_RULES", 3)
    found = rules_for("User-agent: *\nDisallow: /1\nDisallow: /2\nAllow: /3\nDisallow: /4", "x")
    assert (found.n_rules, found.is_cut) == (3, True)
    assert found.text.splitlines()[1:] == ["Disallow: /1", "Disallow: /2", "Allow: /3"]


def test_asterisks_beyond_the_bound_are_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots, "MAX_STARS", 3)
    found = rules_for("User-agent: *\nDisallow: /*a*\nDisallow: /**\nDisallow: /b", "x")
    assert (found.text.splitlines()[1:], found.is_cut) == (["Disallow: /*a*", "Disallow: /b"], True)


def test_a_robots_txt_with_too_many_rules_is_obeyed_in_part_and_counted() -> None:
    body = b"User-agent: *\nDisallow: /x\n" + b"Disallow: /%d\n" * 12_000 % tuple(range(12_000))

    def answer(host: str, path: str) -> bytes:
        if path == "/robots.txt":
            return raw(body, "Content-Type: text/plain")
        return raw(b"<a href=/x>x</a><a href=/y>y</a>")

    with RawSite(answer) as site:
        run = crawl(site, {"ROBOTSTXT_OBEY": True})
    assert sorted(path for _, path in site.requests) == ["/", "/robots.txt", "/y"]
    assert refused(run) == {"cut/robots-rules": 1}
