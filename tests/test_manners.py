"""The command `manners` finds each planted violation in a log, and nothing in a polite one."""

import gzip
import json
import random
import tracemalloc

import pytest
from access_logs import BOT, line, robots_read, write_log
from commands import refusal, run_command

from crawlprio.plugins.manners.access_log import MAX_LINE_BYTES, AccessLog, parse_line
from crawlprio.plugins.manners.judge import Gaps, Judge, Limits, RobotsHistory, Rule, Spacing

HOUR = 3600
ROBOTS = "User-agent: *\nDisallow: /no\nAllow: /no/but\n"
SLOW = "User-agent: mybot\nCrawl-delay: 5\n"


def judged(folder, lines, robots="", **limits):
    """Judge `mybot` by a log of these lines."""
    history = None
    if robots:
        (folder / "rules.txt").write_text(robots)
        history = RobotsHistory(folder / "rules.txt", "mybot")
    log = AccessLog([write_log(folder / "access.log", lines)])
    judge = Judge(log, "mybot", Limits(**limits), history)
    judge.run()
    return judge


def broken(judge):
    return {str(rule): found.n_broken for rule, found in judge.findings.items() if found.n_broken}


def pages(n_pages, gap, **how):
    return [robots_read(), *(line(gap * (n + 1), f"/{n}", **how) for n in range(n_pages))]


PLANTED = [
    ("disallowed", [robots_read(), line(1, "/no"), line(2, "/no/but")], 1, {"robots": ROBOTS}),
    ("disallowed", [robots_read(), line(1, "/no?x=1"), line(2, "/No")], 1, {"robots": ROBOTS}),
    ("robots-first", [line(0), robots_read(1), line(2)], 1, {}),
    ("robots-first", [robots_read(host="a:80"), line(1, host="b:80")], 1, {}),
    ("robots-first", [robots_read(method="HEAD"), line(1)], 1, {}),
    ("robots-age", [robots_read(), line(23 * HOUR), line(25 * HOUR)], 1, {}),
    ("robots-5xx", [robots_read(0, 503), line(60), robots_read(90), line(95)], 1, {}),
    ("robots-5xx", [robots_read(0, 500), line(60), robots_read(90, 404), line(95)], 1, {}),
    ("crawl-delay", [*pages(4, 10), line(42), line(44)], 2, {"robots": SLOW}),
    ("delay", [*pages(5, 2), line(10.1), line(10.2)], 1, {"delay": 1}),
    ("back-off", [robots_read(), line(5, status=503), line(9)], 1, {"retry_after": 10}),
    ("back-off", [robots_read(), line(5, status=429), line(5)], 1, {}),
    ("at-once", [robots_read(), line(9, extra=" 3.000"), line(9, extra=" 3.000")], 1,
     {"at_once": 1}),
    ("contact", [robots_read(agent="mybot"), line(1, agent="mybot")], 1, {}),
    ("disguise", [robots_read(), line(1, agent="Mozilla/5.0 (X11)"), line(2)], 1, {}),
    ("disguise", [robots_read(), line(1, agent="-"), line(2, agent="wget/1.2")], 1, {}),
    ("methods", [robots_read(), line(1, method="POST"), line(2, method="HEAD")], 1, {}),
    ("queries", [robots_read(), *(line(n + 1, f"/s?q={n}") for n in range(7))], 2, {"queries": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "lines", "n_broken", "given"), PLANTED)
def test_a_planted_violation_is_found_and_nothing_else(rule, lines, n_broken, given, tmp_path):
    judge = judged(tmp_path, lines, **given)
    assert broken(judge) == {rule: n_broken}
    assert len(judge.findings[Rule(rule)].examples) == n_broken
    assert not judge.is_kept


KEPT = [
    (pages(50, 1), {"robots": ROBOTS, "delay": 1}),
    (pages(50, 1.02), {"delay": 1}),
    ([robots_read(0, 404), line(1, "/no")], {"robots": ROBOTS}),
    ([robots_read(0, 200), robots_read(23 * HOUR, 503), line(30 * HOUR)], {}),
    ([robots_read(), robots_read(23 * HOUR, 304), line(46 * HOUR)], {}),
    ([robots_read(), line(1, agent="Mozilla/5.0", address="10.0.0.2"), line(2)], {}),
    ([robots_read(), line(1, agent="Mozilla/5.0 (other; +http://o.test)"), line(2)], {}),
    ([robots_read(), line(1, agent="other/2.0", method="POST"), line(2)], {}),
    ([robots_read(), line(1, agent="Mozilla/5.0 (X11)"), line(2)], {"without": [Rule.DISGUISE]}),
    ([robots_read(), line(1, agent=f"not{BOT}", address="10.0.0.3", method="POST")], {}),
    ([line(5), line(23 * HOUR), robots_read(23.5 * HOUR)], {"is_continued": True}),
    ([robots_read(), line(5, status=503), line(15)], {"retry_after": 10}),
    ([robots_read(), line(8, extra=" 3.000"), line(11, extra=" 3.000")], {"at_once": 1}),
    ([robots_read(), *[line(9, extra=" 3.000")] * 2], {"at_once": 2}),
    ([robots_read(host="a:80"), *[line(n, f"/{n}", host="a:80") for n in range(9)],
      robots_read(host="b:80"), line(1, host="b:80")], {"delay": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "given"), KEPT)
def test_what_the_rules_permit_is_not_found(lines, given, tmp_path):
    judge = judged(tmp_path, lines, **given)
    assert broken(judge) == {}
    assert judge.is_kept


@pytest.mark.parametrize("seed", range(20))
def test_no_pause_is_called_too_short_that_was_made(seed):
    """Whatever the phase of the clock that the log rounds down to, or the pauses beyond."""
    print(f"seed {seed}")
    draw = random.Random(seed)
    pause = draw.choice([0.25, 1.0, 1.5, 5.0])
    for resolution in (1.0, 0.001):
        spacing, now = Spacing(), draw.random() * 1000
        for _ in range(2_000):
            now += pause + draw.choice([0, 0, 0.001, draw.random(), 7 * draw.random()])
            assert not spacing.is_too_soon(now // resolution * resolution, pause, resolution)


@pytest.mark.parametrize("seed", range(20))
def test_half_the_pause_is_found_however_coarse_the_log(seed):
    print(f"seed {seed}")
    draw = random.Random(seed)
    pause, now = draw.choice([0.25, 1.0, 1.5, 5.0]), draw.random() * 1000
    spacing, found = Spacing(), 0
    for _ in range(100):
        now += pause / 2
        found += spacing.is_too_soon(float(int(now)), pause, 1.0)
    assert found > 0


def test_gaps_are_counted_between_successive_requests():
    gaps = Gaps()
    for time in (0, 1, 3, 6, 106):
        gaps.add(time)
    assert (gaps.shortest, gaps.median) == (1, 2)


def test_the_robots_txt_in_force_is_the_one_that_was_read_last(tmp_path):
    folder = tmp_path / "robots"
    folder.mkdir()
    (folder / "robots.txt").write_text("")
    (folder / "2026-09-21T14:30.txt").write_text("User-agent: *\nDisallow: /new\n")
    (folder / "b.test-2026-09-22.txt").write_text("User-agent: *\nDisallow: /\n")
    history = RobotsHistory(folder, "mybot")
    half_past_two = 1_790_001_000  # the crawl begins at 14:13:20
    assert [
        None if rules is None else rules.allows("/new")
        for rules in (
            history.at("a.test:80", half_past_two - 1),
            history.at("a.test:80", half_past_two),
            history.at("b.test:80", half_past_two + 86_400),
            history.at("b.test", half_past_two),
        )
    ] == [True, False, False, None]
    log = AccessLog(
        [
            write_log(
                tmp_path / "access.log",
                [robots_read(), line(2_000, "/new"), robots_read(3_000), line(3_001, "/new")],
            )
        ]
    )
    judge = Judge(log, "mybot", Limits(), history)
    judge.run()
    assert broken(judge) == {"disallowed": 1}
    assert "access.log:4" in judge.findings[Rule.DISALLOWED].examples[0]


def test_lines_of_nginx_and_apache_are_read():
    plain = parse_line(line(0, "/a?b=1"))
    assert plain[:9] == (*("", "10.0.0.1", 1_790_000_000, 1.0, None), *("GET", "/a?b=1", 200, BOT))
    hosted = parse_line(line(0, "/", host="A.test:80", extra=" 0.250 1790000000.125"))
    assert hosted[:5] == ("a.test:80", "10.0.0.1", 1_790_000_000.125, 0.001, 0.25)
    absolute = parse_line(line(0, "http://a.test/x", extra=' "rt=1.500"'))
    assert (absolute.host, absolute.target, absolute.seconds) == ("a.test", "/x", 1.5)
    quoted = parse_line(line(0, r"/\x22", agent=r"a \"b\" \x1b"))
    assert (quoted.target, quoted.agent) == ('/"', 'a "b" \x1b')
    early = parse_line(line().replace("+0000", "+0200"))
    assert early.time == 1_790_000_000 - 7200


@pytest.mark.parametrize(
    "text",
    [
        *("", "garbage", line()[:-1], line().replace("Sep", "Sec"), line().replace("21/", "41/")),
        *(line().replace(" 200 ", " abc "), line()[20:], line().replace('"-"', "-")),
        *('"' * 1_000, "\\" * 10_000, ' "\\"' * 5_000, "[" * 10_000),
    ],
)
def test_what_is_not_in_the_combined_format_is_malformed(text):
    assert parse_line(text) is None


CADDY = {
    "level": "info", "ts": 1790000000.1254, "logger": "http.log.access", "user_id": "",
    "request": {
        "remote_ip": "10.0.0.9", "client_ip": "10.0.0.1", "proto": "HTTP/2.0", "method": "GET",
        "host": "A.test:8443", "uri": "/a?b=1", "headers": {"User-Agent": [BOT], "Accept": ["*/*"]},
    },
    "duration": 9.29675e-05, "size": 10900, "status": 200,
}  # fmt: skip
NGINX = {
    "msec": "1790000000.125", "remote_addr": "10.0.0.1", "host": "a.test", "status": "200",
    "request": "GET /a?b=1 HTTP/1.1", "request_time": "0.250", "http_user_agent": BOT,
}  # fmt: skip


@pytest.mark.parametrize(
    ("said", "where", "when", "seconds"),
    [
        (CADDY, "a.test:8443", (1_790_000_000.1254, 0.001), 9.29675e-05),
        ({**CADDY, "ts": "2026-09-21T14:13:20Z"}, "a.test:8443", (1_790_000_000, 1.0), 9.29675e-05),
        (NGINX, "a.test", (1_790_000_000.125, 0.001), 0.25),
        (
            {**NGINX, "msec": "", "time_iso8601": "2026-09-21T16:13:20+02:00", "request_time": "-"},
            "a.test",
            (1_790_000_000, 1.0),
            None,
        ),
        (
            {**NGINX, "request": "", "request_method": "GET", "request_uri": "/a?b=1"},
            "a.test",
            (1_790_000_000.125, 0.001),
            0.25,
        ),
    ],
    ids=["caddy", "caddy-iso", "nginx", "nginx-iso", "nginx-parts"],
)
def test_json_logs_of_caddy_and_nginx_are_read(said, where, when, seconds):
    request = parse_line(json.dumps(said))
    assert request == (where, "10.0.0.1", *when, seconds, "GET", "/a?b=1", 200, BOT)


@pytest.mark.parametrize(
    "text",
    [
        *("{", "{}", "{" * 60_000, '{"request":' * 9_000, '{"ts": 1' + "0" * 5_000 + "}"),
        *(json.dumps({**CADDY, **wrong}) for wrong in ({"ts": None}, {"status": 2}, {"ts": 1e300})),
        *(json.dumps({**CADDY, "request": wrong}) for wrong in (None, [], {}, "GET / HTTP/1.1")),
    ],
)
def test_json_that_is_no_request_is_malformed(text):
    assert parse_line(text) is None


def test_a_log_of_long_user_agents_is_read_in_linear_time(tmp_path):
    """The search for mail addresses took 1.2 s for 20,000 letters, and nine times that for 60,000.

    It would take the hour in which the tests must end.
    """
    agents = ["x@" * 30_000, "x" * 60_000, "@" * 60_000, "https://" * 7_000, "mybot x@" * 7_000]
    lines = [line(n, agent=f"{agent} {n}") for n in range(100) for agent in agents]
    judge = judged(tmp_path, [robots_read(), *lines])
    assert (judge.n_requests, len(judge.others)) == (101, 400)


def test_a_hostile_log_is_read_in_bounded_memory_and_shown_without_escapes(tmp_path, capsys):
    lines = ["\x1b[2Jred", "x" * 5_000_000, "\x00\u202e", "more", robots_read()]
    lines += [line(n + 1, f"/\x1b]0;{n}", method="PUT") for n in range(20)]
    lines += [line(50, "/" + "y" * (MAX_LINE_BYTES // 2), method="PUT")]
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    tracemalloc.start()
    status = run_command(
        "manners", str(path), "--agent", "mybot", "--json", str(tmp_path / "out.json")
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status == 1
    assert peak < 3_000_000
    shown = capsys.readouterr().out
    assert [char for char in shown if not char.isprintable() and char != "\n"] == []
    assert max(map(len, shown.splitlines())) < 300
    figures = json.loads((tmp_path / "out.json").read_text())
    assert figures["malformed"]["count"] == 4
    assert len(figures["malformed"]["examples"]) == 3
    assert figures["lines"] == len(lines)


def test_a_flood_of_hosts_addresses_and_agents_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("crawlprio.plugins.manners.judge.MAX_HOSTS", 10)
    monkeypatch.setattr("crawlprio.plugins.manners.judge.MAX_NAMES", 10)
    monkeypatch.setattr("crawlprio.plugins.manners.judge.MAX_PATHS", 10)
    judge = judged(
        tmp_path,
        [
            line(n, f"/{n}?x", host=f"h{n}", address=f"10.0.0.{n}", agent=f"{BOT} {n}")
            for n in range(100)
        ],
    )
    assert (judge.n_requests, judge.n_beyond) == (100, 90)
    assert [len(names) for names in (judge.hosts, judge.agents, judge.addresses)] == [10] * 3


def test_rotated_logs_are_read_in_order_of_time(tmp_path):
    new = write_log(tmp_path / "access.log", [line(n) for n in range(100, 200)])
    old = tmp_path / "access.log.1.gz"
    old.write_bytes(gzip.compress("\n".join([robots_read(), line(5)]).encode()))
    judge = Judge(AccessLog([new, old]), "mybot", Limits())
    judge.run()
    assert (broken(judge), judge.n_requests, judge.n_backwards) == ({}, 102, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no log"),
        (["access.log"], "--agent"),
        (["access.log", "--agent", "otherbot"], "mybot/1.0"),
        (["none.log", "--agent", "mybot"], "none.log"),
        (["half.gz", "--agent", "mybot"], "half.gz"),
        (["access.log", "--agent", "mybot", "--robots", "none.txt"], "none.txt"),
        (["access.log", "--agent", "mybot", "--robots", "empty"], "--robots"),
        (["access.log", "--agent", "mybot", "--delay", "fast"], "--delay"),
        (["access.log", "--agent", "mybot", "--at-once", "0"], "--at-once"),
        (["access.log", "--agent", "mybot", "--json", "no/where"], "--json"),
        (["access.log", "--agent", "mybot", "--json", "access.log"], "--json"),
        (["access.log", "--agent", "mybot", "--strict"], "--strict"),
        (["access.log", "--agent", "mybot", "--without", "disguise,manners"], "manners"),
        (["access.log", "--agent", "+https://a.test"], "--agent"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "access.log", [robots_read(), line(1)])
    (tmp_path / "half.gz").write_bytes(gzip.compress(b"x" * 10_000)[:-10])
    (tmp_path / "empty").mkdir()
    before = (tmp_path / "access.log").read_bytes()
    error = refusal(capsys, "manners", *words)
    assert said in error
    assert (tmp_path / "access.log").read_bytes() == before


def test_a_polite_crawler_is_status_0_with_one_row_per_rule(tmp_path, capsys):
    path = write_log(tmp_path / "access.log", pages(5, 2))
    status = run_command("manners", str(path), "--agent", "mybot", "--delay", "2")
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert [row[0] for row in rows if row and row[0] in list(Rule)] == list(Rule)
