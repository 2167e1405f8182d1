"""No page of 10 MB takes a parser more than linear memory and time; ordinary pages are not cut."""

import random
import re
import sys
from itertools import product

import numpy as np
import pytest
from examples import examples
from forked import run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from crawlprio.web.html import parse_page
from crawlprio.web.html_splitter import (
    _FORMATTING_NAMES,
    _SENTINEL,
    MAX_ATTRIBUTES,
    MAX_TAGS,
    SMALL,
    _is_plainly_harmless,
    _scan,
    _tag_end,
    pieces,
)

ATTRIBUTES = ["".join(name) for name in product("abcdefghijklmnopqrstuvwxyz", repeat=4)]
DENSE = "/".join(ATTRIBUTES[:600]).encode()
ALL = "/".join(ATTRIBUTES).encode()
DISTINCT = b"".join(b"<b %s>" % name.encode() for name in ATTRIBUTES[:50])
OPENING = re.compile(rb"(?i)<(?:a|b|font|nobr)[ >]")
LIGHTEST = 265 + len("<B>")
LONG = b'<p><a href="/' + b"y" * 300_000 + b'">'

ATTACKS = {
    "a long a": (LONG, b"<p>x"),
    "a long a, end tags": (LONG, b"</p>x"),
    "long a again and again": (b"", b'<p><a href="' + b"y" * 10_000 + b'">' + 18 * b"<p>x"),
    "an a of attributes": (b"<p><a/" + DENSE[:3_000] + b">", b"<p>x"),
    "a of attributes again and again": (b"", b"<p><a/" + DENSE + b">" + 600 * b"<p>x"),
    "font": (b"<p><font/" + DENSE + b">", b"<p>x"),
    "formatting that differs": (b"<p>" + 20 * DISTINCT, b"<p>x"),
    "formatting that differs in rows": (b"", b"<p>" + DISTINCT + 100 * b"<p>x"),
    "foster parenting": (b"<table>" + DISTINCT, b"<tr>x"),
    "cells": (b"<table>", b"<tr><td><a/" + DENSE + b"><td>x"),
    "adoption": (DISTINCT + 3_000 * b"<div>", b"</b>"),
    "markers": (b"", b"<object><a " + DENSE[:200] + b">x"),
    "select": (b"<p>" + DISTINCT, b"<select><option>x</select><p>"),
    "nobr": (b"<nobr/" + DENSE + b">", b"<nobr>x<p>"),
    "attributes": (b"", b"<x/" + DENSE + b">"),
    "attributes of an end tag": (b"</x/" + ALL + b">", b" "),
    "attributes behind a quote": (b"<!-- <x y=' --><x/" + ALL + b"><!-- ' -->", b" "),
    "attributes in a style of svg": (b"<svg><style><x/" + ALL + b">", b" "),
    "html": (
        b"".join(
            b"<html/" + "/".join(ATTRIBUTES[at : at + 900]).encode() + b">"
            for at in range(0, 400_000, 900)
        ),
        b" ",
    ),
    "body": (b"".join(b"<body/%s>" % name.encode() for name in ATTRIBUTES[:90_000]), b" "),
    "nesting": (b"", b"<div>"),
    "svg": (b"<svg>", b"<g>"),
    "svg links": (b"<svg>", b"<a href=/x>"),
    "tags in tags": (b"", b"<a x=\"<b y='"),
    "nulls": (b"<a href='", b"\0"),
    "references that grow": (b"", b"&nGt;"),
    "references that grow, in a link": (b"<a href='", b"&nLt;"),
}  # fmt: skip

CHILD = """
import os, resource, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/kit"]
from test_html_splitter import ATTACKS, attack
from crawlprio.web.html import parse_page

sizes = [int(size) for size in sys.argv[2:]]
parse_page(200 * b"<p><b>x<a href=x>" + 5_000 * b" ", "http://a.test/", want_text=True)
for name in ATTACKS:
    for size in sizes:
        page = attack(name, size)
        child = os.fork()
        if child == 0:
            with open("/proc/self/statm") as statm:
                now = int(statm.read().split()[0]) * resource.getpagesize()
            most = now + 100_000_000 + 20 * len(page)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                parse_page(page, "http://a.test/", want_text=True)
            except BaseException:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print(name, size, flush=True)
"""


def attack(name, size):
    """Return the page of an attack, truncated at a size."""
    head, unit = ATTACKS[name]
    return (head + unit * (max(0, size - len(head)) // len(unit) + 1))[:size]


def scan(html):
    """Return the number of `<`, of elements that may be open, and the weights of `_scan`."""
    page = np.frombuffer(html + _SENTINEL, np.uint8)
    found = _scan(page, 0, 0, 1 << 62, 1 << 62, 1 << 62)
    assert found == _scan.plain(html + _SENTINEL, 0, 0, 1 << 62, 1 << 62, 1 << 62)
    end, n_tags, n_left, weight, link_weight, *_ = found
    assert end == len(html)
    return int(n_tags), int(n_left), int(weight), int(link_weight)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, limits the address space")
@pytest.mark.parametrize("sizes", [(SMALL, 12_288, 65_536, 600_000), (10_000_000,)])
def test_no_page_takes_more_than_100_mb_and_20_times_its_size(sizes):
    """Nor half a minute of processor time; anything quadratic would take hours."""
    line = [sys.executable, "-c", CHILD, __file__.rpartition("/")[0], *map(str, sizes)]
    run = run_to_end(line, check=True)
    assert run.stdout == ""


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("limits", [(MAX_TAGS, 1 << 62), (500, 1_000_000)])
def test_python_and_compiled_code_split_a_hostile_page_at_the_same_place(name, limits):
    """Also from within the page, and as its patience ends."""
    html = attack(name, 65_536) + _SENTINEL
    for start, patience in ((0, 16 * len(html)), (0, len(html) // 2), (1_001, 16 * len(html))):
        rest = start, start, *limits, patience
        assert _scan.plain(html, *rest) == _scan(np.frombuffer(html, np.uint8), *rest)


TOKENS = [
    *(b"<%s %s=%d>" % (name.encode(), kind, value)
      for name in ("a", "b", "font", "nobr") for kind in (b"x", b"y") for value in (1, 2)),
    *(b"</%s>" % name.encode() for name in ("a", "b", "font", "nobr", "p", "div", "td", "span")),
    *(b"<p>x", b"<p>", b"<div>", b"x", b"<table>", b"<td>", b"<tr>x", b"</table>", b"<object>"),
    *(b"</object>", b"<select>", b"<option>x", b"</select>", b"<button>", b"<li>x", b"<svg>"),
    *(b"<span>", b"<br>", b"<link>", b"<!--", b"-->", b"<b x='</b>'>", b"<div x='</div>'>", b"<g>"),
    *(b"</g>", b"<title>", b"</title>", b"<script>", b"</script>", b"<B>", b"</B>", b"<template>"),
    *(b"</template>", b"<figcaption>", b"</zigcaption>", b"<x=1>", b"</x=2>", b"<math>", b"<mi>"),
]  # fmt: skip


def mixtures(seed, n_pages):
    """Yield pages of a few tokens, some with an end tag of their own, in random order."""
    source = random.Random(seed)
    for _ in range(n_pages):
        some = source.sample(TOKENS, 8)
        for at in range(8):
            name = re.match(rb"<(\w+)", some[at])
            if name and source.random() < 0.3:
                some[at] += b"x" * source.randrange(2) + b"</%s>" % name[1]
        yield b"".join(source.choices(some, k=300))


UNCERTAIN = [
    50 * b"<x=1></x=2>",
    50 * b"<figcaption></zigcaption>",
    50 * b"<div x='</div>'>",
    50 * b"<div><!--</div>-->",
    b"<svg>" + 50 * b"<link>",
    b"<p><b x=1>" + 50 * b"<p>x</p>" + b"</b>",
    50 * b"<a x=1><b x=1><a x=2></a></b></a>",
    50 * b"<p><b x='</b>'>x",
]
"""Elements that an end tag seems to close, and what seems to be void."""
PAGES = [*UNCERTAIN, *mixtures(4, 500)]


def test_what_the_parser_repeats_is_bounded_by_tags_times_formatting_elements():
    """Besides the elements themselves: per `<` one `a`, and each other that was not closed."""
    names = {*_FORMATTING_NAMES.split(), "a"}
    n_copied = n_closed = 0
    for html in PAGES:
        n_tags, _, weight, link_weight = scan(html)
        root = LexborHTMLParser(html, options=1).root
        found = [node for node in root.traverse() if node.tag in names]
        n_written = len(OPENING.findall(html))
        n_copies = len(found) - n_written
        assert n_copies * LIGHTEST <= n_tags * (weight + link_weight), html[:80]
        n_copied += n_copies > 0
        n_closed += 0 < n_written * LIGHTEST > weight
    assert n_copied > 20
    assert n_closed > 20


def test_no_more_elements_are_open_than_were_not_closed_for_certain():
    """But for copies of formatting elements, and what the parser implies."""
    implied = {*_FORMATTING_NAMES.split(), "a", "html", "body", "tbody", "tr", "colgroup"}
    n_well_closed = 0
    for html in PAGES:
        n_tags, n_left, *_ = scan(html)
        n_open = 0
        for last in (b"<i id=last>x", b"<g id=last>x"):  # the first ends any SVG
            root = LexborHTMLParser(html + last, options=1).root
            node = (root.css("#last") or [root])[0]
            tags = []
            while node.parent is not None:
                node = node.parent
                tags.append(node.tag)
            n_open = max(n_open, sum(tag not in implied for tag in tags))
        assert n_open <= n_left + 1, html[:80]
        n_well_closed += n_left < n_tags // 4
    assert n_well_closed > 20


def test_a_well_formed_page_of_40_000_tags_is_read_whole():
    row = b"<tr><td><a href=/x><code><span>x</span></code></a></td><td><p>y<br>z</p></td></tr>\n"
    html = b"<html><body><table>" + 5_000 * row + b"</table></body></html>"
    assert pieces(html) == ([html], "")
    assert len(pieces(html.replace(b"</tr>", b""))[0]) > 1


@settings(max_examples=examples(250), deadline=None)
@given(st.text("ab=>\"'/< \n\r\t\fé\v", max_size=40))
def test_a_tag_ends_where_it_ends_for_the_parser(inside):
    html = b"<x " + inside.encode() + b"'\">|"
    end, n_attributes = _tag_end(np.frombuffer(html + _SENTINEL, np.uint8), 2, len(html))
    shown = LexborHTMLParser(html[:end] + b"|", options=1)
    found = shown.tags("x")
    assert len(found) == (html[end - 1 : end] == b">")
    if found:
        assert found[0].text() == "|"
        assert len(found[0].attributes) <= n_attributes
        assert not LexborHTMLParser(html[: end - 1], options=1).tags("x")


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"<a href=1>", b"<b>", b"<p>x", b"<script>", b"</script>", b"<!--", b"-->", b"<style>",
             b"<font a=1 b=2>", b"<html a b>", b"<a x='", b"'>", b"</x y>", b"<", b"text "]
        ),
        min_size=1, max_size=12,
    ),
    st.integers(400, 4_000),
)  # fmt: skip
def test_the_pieces_are_the_page_in_order(units, n_times):
    html = b"".join(units) * n_times
    parts, cut = pieces(html)
    whole = b"".join(part for part in parts if isinstance(part, bytes))
    assert html.startswith(whole)
    assert len(whole) == len(html) or cut in ("tags", "attributes")


INLINE = [
    *(b"<b>", b"</b>", b"<i>", b"</i>", b"<code>x</code>", b"<code><span>x</span></code>", b"<br>"),
    *(b"<code><span><sub>x</sub></span>y</code>", b"<b x='1' y z=2>x</b >", b"<div>", b"</div>"),
    *(b"<tt><a href=1>x</a></tt>", b"<a href='%s'>x</a>" % (300 * b"y"), b"text ", b"<p>", b"< "),
    *(b"<B>x</B>", b"<b>x</B>", b"<i x='", b"'>", b"<i x=\">y\">", b"<x a b c d/>", b"<!-- x -->"),
    *(b"<em", b"<html a=1>", b"<a x='<'>", b"<span>", b"</span>", b"<font color=red>x</font>"),
]  # fmt: skip


def test_a_page_that_is_plainly_harmless_is_read_whole_by_compiled_code_too():
    """Pages near the bound: a few units again and again, each page at six lengths."""
    source = random.Random(5)
    scan(b"")
    n_harmless = n_split = 0
    for _ in range(150):
        some = source.sample(INLINE, source.randint(1, 6))
        unit = b"".join(source.choices(some, k=100))
        for n_times in (1, 3, 10, 30, 60, 90):
            html = unit * n_times
            is_whole = pieces(html) == ([html], "")
            is_harmless = _is_plainly_harmless(html)
            assert is_whole or not is_harmless, html[:200]
            n_harmless += is_harmless and len(html) > SMALL
            n_split += not is_whole
    assert n_harmless > 100
    assert n_split > 100


@pytest.mark.parametrize("tag", [b"<b x='>", b'<b x = ">', b"</b x=\n'>", b"<b 'x=\">", b'<b =">'])
def test_a_tag_may_end_far_behind_the_next_greater_sign(tag):
    html = tag + 2_000 * b"<p>x" + tag[tag.index(b"=") :].strip(b"= \n>") + b">"
    end, _ = _tag_end(np.frombuffer(html + _SENTINEL, np.uint8), 3, len(html))
    assert _is_plainly_harmless(html) is (end < 10)


def test_elements_in_deep_pages_are_closed_for_certain_in_python_and_in_compiled_code():
    """Compiled code remembers 64 open elements; a formatting element has room for four inside."""
    inside = b"<code><span><sub><sup>x</sup></sub></span></code>"
    for depth in range(50, 70):
        html = (depth * b"<div>" + inside + depth * b"</div>") * 60
        assert pieces(html) == ([html], "")
        assert _is_plainly_harmless(html)
        assert scan(html)[2] == 0


def test_a_long_link_does_not_hide_the_links_after_it():
    links = b"".join(b"<p><a href=/%d>%d</a>x" % (n, n) for n in range(3_000))
    found = parse_page(LONG + links, "http://a.test/")
    assert found.urls == [f"http://a.test/{n}" for n in range(3_000)]
    assert found.anchors == [str(n) for n in range(3_000)]
    assert (found.cut, found.n_dropped) == ("", 1)


def test_script_text_that_looks_like_a_tag_with_many_attributes_is_not_one():
    script = b"<script>for(i=0;i<n ;i++)" + 20_000 * b"a / b " + b"</script>"
    found = parse_page(b"<a href=1>x</a>" + script + b"<a href=2>y</a>", "http://a.test/")
    assert (found.anchors, found.cut) == (["x", "y"], "")


def test_pages_that_exceed_a_bound_report_it():
    attributes = b"<x/" + "/".join(ATTRIBUTES[: MAX_ATTRIBUTES + 1]).encode() + b">"
    assert parse_page(4 * attributes, "http://a.test/").cut == "attributes"
    assert parse_page((MAX_TAGS + 1_000) * b"<p>", "http://a.test/").cut == "tags"


def test_references_that_would_overflow_the_parser_keep_their_meaning():
    html = b"<a href='?&nGt;'>" + 5_000 * b"&nLt;" + b"</a>"
    found = parse_page(html, "http://a.test/")
    assert found.urls == ["http://a.test/?%E2%89%AB%E2%83%92"]
    assert found.anchors[0].startswith(3 * "\u226a\u20d2")
