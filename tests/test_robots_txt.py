"""The rules kept of a robots.txt are bounded, and have the meaning that Protego reads in it."""

import random
import re
import tracemalloc
from urllib.parse import quote

import pytest
from examples import examples
from hostile import RawSite, crawl, raw, refused
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protego import Protego
from robots_cases import with_whole_products

from crawlprio.web import robots_txt
from crawlprio.web.robots_txt import (
    ASK_AGAIN,
    MAX_AGE,
    MAX_RULES,
    MAX_SITEMAPS,
    MAX_WILDCARDS,
    RobotsFiles,
    RobotsTxt,
    decoded,
    pack,
    products,
    rules_for,
    validity,
)
from crawlprio.web.urls import MAX_URL_LENGTH

AGENTS = {
    "crawlprio": ["crawlprio"],
    "Mozilla/5.0 (compatible; my-bot/1.0; +https://a.test/)": ["mozilla", "my-bot"],
    "x": ["x"],
    "": [],
}
"""User-Agents, with the products that each names."""

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
            *("User-agent: crawl", "User-agent: crawlprio-news", "User-agent: my", "User-agent: a"),
        ]
    ),
    st.text(max_size=12),
)
URLS = ["/", "/a", "/a/b", "/xay", "/x.php", "/a$b", "/index.html", "/robots.txt", "/%61?q", "/b"]


@settings(max_examples=examples(500), deadline=None, derandomize=True, database=None)
@given(st.lists(LINES, max_size=16).map("\n".join), st.sampled_from(list(AGENTS)))
@example("User-agent: crawl*\nDisallow: /\n\nUser-agent: *\nDisallow: /a", "crawlprio")
@example("User-agent: x\nDisallow: /\n\nUser-agent: *\nDisallow: /a", "x")
@example("User-agent: x\nSitemap: http://a.test/s\nUser-agent: *\nDisallow: /a", "y")
@example("User-agent: x\nNoindex: /\nUser-agent: *\nDisallow: /a", "x")
def test_the_rules_for_one_robot_match_those_of_the_whole_file(text, agent):
    whole = Protego.parse(with_whole_products(text, AGENTS.get(agent, [agent])))
    rules, is_cut = rules_for(text, agent)
    reduced = Protego.parse(rules)
    assert not is_cut
    for url in URLS:
        url = f"http://a.test{url}"
        assert reduced.can_fetch(url, agent) == whole.can_fetch(url, agent)
    assert (reduced.crawl_delay(agent) or 0) >= (whole.crawl_delay(agent) or 0)
    assert list(reduced.sitemaps) == list(whole.sitemaps)


@pytest.mark.parametrize("agent", ["foobot", "FooBot/2.1", "crawl/1 foobot/2 (+http://foo.test/)"])
@pytest.mark.parametrize("other", ["foo", "foobot-news", "foobot2", "bot", "test", "foo*", "2.1"])
def test_a_group_is_for_the_product_that_it_names_and_for_no_other(agent, other):
    """A part of a name, a longer name, a version and the words of a URL name nobody."""
    everyone = "User-agent: *\nDisallow: /all"
    group = f"User-agent: {other}\nDisallow: /other"
    own = "User-agent: FooBot\nDisallow: /own"
    assert rules_for(group, agent)[0] == ""
    assert rules_for(f"{group}\n{everyone}", agent)[0] == everyone
    assert rules_for(everyone.replace("*", "* all"), agent)[0] == everyone  # as Google reads it
    for text in (f"{group}\n{own}\n{everyone}", f"{everyone}\n{own}\n{group}"):
        assert rules_for(text, agent)[0] == "User-agent: *\nDisallow: /own"
    assert rules_for(f"{own}\n{everyone}", other)[0] == everyone


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        ("crawlprio/0.2.0 (a Scrapy crawler)", "crawlprio"),
        ("crawlprio/0.2.0 (based on scrapy/2.19, a/b; see 1/2)", "crawlprio"),
        ("mybot/1.0 crawlprio/0.2.0 (me@a.test; a crawler)", "mybot crawlprio"),
        ("mybot (a (nested) comment; with bot words) other/1", "mybot other"),
        (r"mybot (an escaped \) a; bracket) other/1", "mybot other"),
        ("mybot/1.0 (without an end; a crawler", "mybot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/1", "mozilla gecko"),
        ("Mozilla/5.0 (compatible; my.bot; a crawler; +http://a.test/)", "mozilla my.bot"),
        ("Mozilla/5.0 (compatible; MyBot/2.1 +http://a.test/bot)", "mozilla mybot"),
        ("Mozilla/5.0 (KHTML, like Gecko) (MyBot/0.1; +http://a.test/)", "mozilla mybot"),
        ("(only a comment)", ""),
    ],
)
def test_words_of_a_comment_are_no_products_unless_they_stand_where_robots_name_themselves(
    agent, names
):
    assert products(agent) == set(names.split())
    everyone = "User-agent: *\nDisallow: /all"
    for word in ("a", "scrapy", "crawler", "comment", "words", "linux", "gecko", "compatible"):
        group = f"User-agent: {word}\nDisallow: /other\n"
        own = "User-agent: *\nDisallow: /other" if word in names.split() else everyone
        assert rules_for(group + everyone, agent)[0] == own


@pytest.mark.parametrize("agent", ["mybot/1.0 longer-name/2", "longer-name/2 mybot/1.0"])
def test_all_groups_that_name_a_robot_are_one(agent):
    one, other = "User-agent: mybot\nDisallow: /a\n", "User-agent: Longer-Name\nDisallow: /b\n"
    everyone = "User-agent: *\nDisallow: /c\n"
    both = {"User-agent: *", "Disallow: /a", "Disallow: /b"}
    for text in (one + other + everyone, everyone + other + one, other + everyone + one):
        assert set(rules_for(text, agent)[0].split("\n")) == both
    assert rules_for(one + everyone, agent)[0] == "User-agent: *\nDisallow: /a"


@pytest.mark.parametrize("delays", [(7, 2), (2, 7), (7, "x"), ("nan", 7), ("inf", 7), (-1, 7)])
def test_the_longest_delay_of_the_groups_of_a_robot_counts(delays):
    groups = zip(("one", "other"), delays, strict=True)
    text = "".join(f"User-agent: {name}\nCrawl-delay: {delay}\n" for name, delay in groups)
    assert Protego.parse(rules_for(text, "one/1 other/2")[0]).crawl_delay("*") == 7


BREAKS = ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("char", BREAKS, ids=ascii)
def test_a_line_ends_at_cr_and_lf_and_nowhere_else(char):
    text = f"User-agent: *\n# no{char}Disallow: /a\nDisallow: /b{char}Allow: /b\nAllow: /c{char}d"
    for said in (text, RobotsTxt(pack(text), 0, 1).text):
        rules = Protego.parse(rules_for(said, "x")[0])
        asked = {path: rules.can_fetch(f"http://a.test{path}", "x") for path in ("/a", "/b", "/c")}
        assert asked == {"/a": True, "/b": True, "/c": True}
        assert not rules.can_fetch(f"http://a.test/b{quote(char)}Allow:%20/b", "x")
    named = f"User-agent: x\nDisallow: /\n\nUser-agent: y{char}User-agent: x\nAllow: /"
    assert rules_for(named, "x")[0] == "User-agent: *\nDisallow: /"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_line_that_the_limit_cuts_is_not_read_however_lines_end(end):
    text = decoded(f"User-agent: *{end}".encode() + f"Disallow: /aaaa{end}".encode() * 40_000)
    assert rules_for(text, "x")[0].split("\n")[-1] == "Disallow: /aaaa"
    assert robots_txt.MAX_BYTES - len(f"Disallow: /aaaa{end}") <= len(text) <= robots_txt.MAX_BYTES
    assert set(re.split("[\r\n]+", text)) <= {"User-agent: *", "Disallow: /aaaa", ""}


def many_robots(n_robots, n_rules):
    """Rules that apply to many robots at once, as a parser copies them."""
    names = "".join(f"User-agent: r{n}\n" for n in range(n_robots))
    rules = "".join(f"Disallow: /{n}\n" for n in range(n_rules))
    return f"{names}User-agent: *\n{rules}".encode()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "body",
    [
        many_robots(15_000, 20_000),
        b"User-agent: *\n" + b"Disallow:/*a*a*aab\n" * 27_000,
        b"User-agent: *\n" + b"Disallow: /" + b"*" * 500_000,
        b"User-agent: *\n" + b"Disallow: /" + b"$" * 500_000,
        b"User-agent: *\n" + b"Allow: /$/index.html\n" * 25_000,
        b"User-agent: *\n" + b"Disallow:/a\n" * 43_000,
        b"User-agent: *\n" + b"Sitemap:/" + b"a" * 500_000,
        b"User-agent:x\n" * 40_000,
        b"a:\n" * 170_000,
        b"\n" * 524_000,
        b"User-agent: crawlprio\nUser-agent: c\n" * 14_000,
        b"User-agent: *\nDisallow:/" + b"%41" * 170_000,
        b"\xff" * 524_000,
        b"# a comment\n" * 100_000,
    ],
    ids=[
        *("robots", "stars", "one-rule", "dollars", "anchors", "rules", "sitemap", "names"),
        *("other", "empty", "twice", "quoted", "x", "comments"),
    ],
)
def test_a_parser_gets_bounded_work_from_any_file(body):
    """15,000 robots times 20,000 rules took 36 s and 1.3 GB; 500,000 dollar signs .8 s."""
    tracemalloc.start()
    rules, _ = rules_for(decoded(body), "crawlprio")
    Protego.parse(rules).can_fetch("http://a.test/" + "a" * 2_000, "crawlprio")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    lines = rules.splitlines()
    assert len(lines) <= 1 + MAX_RULES + MAX_SITEMAPS
    assert max(map(len, lines), default=0) <= len("Request-rate: ") + MAX_URL_LENGTH
    assert sum(line.count("*") + line.count("$") for line in lines[1:]) <= MAX_WILDCARDS
    assert peak < 100_000_000


def test_comments_and_rules_for_other_robots_are_not_kept():
    text = "# much\nUser-agent: x\nDisallow: /x\n\nUser-agent: *\nDisallow: /a # why\n"
    assert rules_for(text, "crawlprio") == ("User-agent: *\nDisallow: /a", False)
    assert rules_for("# nothing but comments\n" * 10, "crawlprio") == ("", False)


def test_wildcards_beyond_the_bound_are_not_obeyed(monkeypatch):
    monkeypatch.setattr(robots_txt, "MAX_WILDCARDS", 3)
    rules, is_cut = rules_for("User-agent: *\nDisallow: /*a$\nDisallow: /$*\nDisallow: /b", "x")
    assert (rules.splitlines()[1:], is_cut) == (["Disallow: /*a$", "Disallow: /b"], True)


@settings(max_examples=examples(300), deadline=None, derandomize=True, database=None)
@given(st.lists(LINES, max_size=16).map("\n".join), st.sampled_from(list(AGENTS)))
def test_a_packed_file_says_the_same_to_every_robot(text, agent):
    assert rules_for(RobotsTxt(pack(text), 0, 1).text, agent) == rules_for(text, agent)


def test_comments_take_no_room():
    lines = "".join(f"# {random.Random(n).random()}\n" for n in range(20_000))
    assert pack(lines) == b""
    assert RobotsTxt(pack(lines + "Disallow: /a # why"), 0, 1).text == "Disallow: /a"


def test_the_largest_files_go_first_beyond_the_bound():
    """Nine hundred sites of one owner with files of half a megabyte displace no small file."""
    files = RobotsFiles(64 * 1024 * 1024)
    small, large = RobotsTxt(b"small", 0, 1), RobotsTxt(b"x" * 512_000, 0, 1)
    for n in range(900):
        files.keep(f"{n}.a.test", large)
        files.keep(f"{n}.b.test", small)
    assert [files.get(f"{n}.b.test") for n in range(900)] == [small] * 900
    assert sum(files.get(f"{n}.a.test") is not None for n in range(900)) == 130


@pytest.mark.parametrize("seed", range(10))
def test_the_files_kept_never_exceed_the_bound(seed):
    draw = random.Random(seed)
    bound = 50_000
    files = RobotsFiles(bound)
    names = [f"{n}.test" for n in range(30)]
    latest = {}
    for _ in range(1_000):
        name = draw.choice(names)
        if draw.random() < 0.5:
            latest[name] = RobotsTxt(b"x" * draw.randrange(10_000), draw.random(), 1)
        elif file := files.get(name):
            robot, rules = str(draw.randrange(9)), "x" * draw.randrange(3_000)
            latest[name] = file.with_rules(robot, rules)
        if name in latest:
            files.keep(name, latest[name])
        kept = {name: file for name in names if (file := files.get(name)) is not None}
        assert kept == {name: latest[name] for name in kept}
        sizes = [files._files[name].size for name in kept]
        assert sum(sizes) <= bound
        assert files._room == bound - sum(sizes)


def test_the_rules_for_a_few_robots_are_kept_with_a_file():
    """A project may have another User-Agent for each request."""
    file = RobotsTxt(b"", 0, 1)
    for n in range(100):
        file = file.with_rules(str(n), f"Disallow: /{n}")
    assert file.rules == {str(n): f"Disallow: /{n}" for n in range(96, 100)}


def test_a_file_is_valid_for_a_day_or_as_long_as_its_cache_control_says():
    said = [
        *("", "max-age=3600", "public, Max-Age=7200", "max-age=0", "s-maxage=5", "max-age=9999999"),
    ]
    assert list(map(validity, said)) == [MAX_AGE, 3600, 7200, ASK_AGAIN, MAX_AGE, MAX_AGE]
    file = RobotsTxt(b"", fetched_at=100, lasts=10)
    assert [file.is_valid(now) for now in (99, 100, 109, 110)] == [False, True, True, False]


def test_a_robots_txt_with_too_many_rules_is_obeyed_in_part_and_counted():
    body = b"User-agent: *\nDisallow: /x\n" + b"Disallow: /%d\n" * 12_000 % tuple(range(12_000))

    def answer(host, path):
        if path == "/robots.txt":
            return raw(body, "Content-Type: text/plain")
        return raw(b"<a href=/x>x</a><a href=/y>y</a>")

    with RawSite(answer) as site:
        run = crawl(site, {"ROBOTSTXT_OBEY": True})
    assert sorted(path for _, path in site.requests) == ["/", "/robots.txt", "/y"]
    assert refused(run) == {"cut/robots-rules": 1}
