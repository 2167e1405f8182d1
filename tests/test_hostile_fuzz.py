"""Nothing from the web or a file raises an exception or exceeds the stated bounds."""

import random
import sys
from pathlib import Path

import pytest
from examples import examples
from hostile import RawSite, crawl, raw
from hypothesis import example, given, settings
from hypothesis import strategies as st

FUZZ = Path(__file__).parent / "fuzz"
sys.path.insert(0, str(FUZZ))

from targets import TARGETS  # noqa: E402

PIECES = st.sampled_from(
    [
        *(b"<a href=", b"<a href='", b"'>", b"<base href=", b"<title>", b"</title>", b"<p>"),
        *(b"<b>", b"</b>", b"</a>", b"<td>", b"<select>", b"<frameset>", b"<object>", b"<math>"),
        *(b"<template>", b"<noscript>", b"<style>", b"<plaintext>", b"<img alt=", b"<area href=x>"),
        *(b"<a xlink:href=y>", b"<meta name=robots content=", b"hex>", b"iso-2022-jp>", b"\x1b$B"),
        *(b"<svg>", b"<script>", b"<!--", b"-->", b"<table>", b"<meta charset=", b"utf-16"),
        b"idna",
        *(
            *(b"http://", b"https:", b"//", b"@", b"[", b"]", b"%", b"%2", b"?", b"#", b";", b"&"),
            b"=",
        ),
        *(b"xn--", b".", b"..", b"/", b"\\", b":80", b":99999", b"0x7f", b"::1", b"\xe2\x80\xae"),
        *(
            b";jsessionid=",
            b"?PHPSESSID=",
            b"&sid=",
            b"\x1b[2J",
            b"\r\n",
            b"\0",
            b"\xff",
            b"&#xD800;",
        ),
        *(b"Crawl-delay: ", b"User-agent: *\n", b"Disallow: /", b"*", b"$", b"nan", b"inf", b"-1"),
        *(b"9" * 40, b"Wed, 21 Oct 2015 07:28:00 GMT", b"1e999", b"GMT", b", ", b"-0000"),
    ]
)
BYTES = st.one_of(
    st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=30).map(b"".join),
    st.binary(max_size=200),
)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_any_bytes_are_handled(target):
    n_examples = 50 if target.__name__ in ("store", "schema", "row", "graph") else 100

    @settings(max_examples=examples(n_examples), deadline=None, derandomize=True, database=None)
    @given(BYTES)
    @example(b"")
    @example(b"[::1]:8//.[/./]\\\n://./.")
    @example("H.example:81/a?b?c?@x:y/\u00fc.de".encode())
    # A store on which SQLite cannot even end a transaction.
    @example(b"\x0e\xf7\xff\xdf\n&")
    def holds(data):
        target(data)

    holds()


CORPUS = sorted(path for path in (FUZZ / "corpus").rglob("*") if path.is_file())


@pytest.mark.parametrize("path", CORPUS, ids=[f"{path.parent.name}-{path.name}" for path in CORPUS])
def test_earlier_findings_stay_fixed(path):
    """Inputs of each finding, which also seed the fuzzer that is run by hand."""
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("seed", [0, 1])
def test_a_crawl_of_sites_with_random_answers_ends(seed):
    """Random robots.txt, status, headers and bodies, each on its own site."""
    source = random.Random(seed)

    def noise(most):
        return source.randbytes(source.randrange(most))

    def answer(host, path):
        if host == "a.test":
            links = "".join(f"<a href=http://h{n}.test/>x</a>" for n in range(60))
            return raw(links.encode() if path == "/" else b"")
        if source.random() < 0.1:
            return noise(200)
        delay = source.choice([b"nan", b"-1", b"1e9", b"inf", b"\xff", noise(5), b"0.1"])
        body = noise(500) if path == "/" else b"User-agent: *\nCrawl-delay: " + delay + noise(50)
        lines = [
            b"%s: %s" % (name, noise(20).replace(b"\r", b"").replace(b"\n", b""))
            for name in (
                *(b"Content-Type", b"Retry-After", b"Location", b"X-Robots-Tag", b"Set-Cookie"),
            )
        ]
        status = source.choice([b"200", b"301", b"302", b"404", b"429", b"503", b"600", b"x"])
        return b"HTTP/1.1 %s OK\r\n%s\r\n\r\n%s" % (status, b"\r\n".join(lines), body)

    with RawSite(answer) as site:
        run = crawl(
            site,
            {
                "ROBOTSTXT_OBEY": True,
                "CRAWLPRIO_MAX_CRAWL_DELAY": 0.1,
                "CRAWLPRIO_MAX_BACK_OFF": 0.1,
            },
            follow="web",
        )
    assert run.reason == "finished"
    assert {host for host, _ in site.requests} >= {f"h{n}.test" for n in range(60)}
