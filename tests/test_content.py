"""Bodies whose headers say how they are coded and of what type they are, rightly and wrongly."""

import gzip
import json
import zlib
from functools import cache
from urllib.parse import unquote

import brotli
import pytest
from browsers import CHROMIUM, FLAGS, served_by
from commands import run_command
from crawls import ADDON, run_spider
from forked import run_to_end
from hostile import RawSite, crawl, raw
from scrapy import Spider
from stores import query

from crawlprio.measure.receipt_document import make_receipt
from crawlprio.web.content import computed_type, decoded, supplied_type

zstd = pytest.importorskip("backports.zstd")

PAGE = b"<!doctype html><title>t</title>" + b"".join(b"<p>word %d" % n for n in range(3_000))


def raw_deflate(body):
    deflating = zlib.compressobj(9, wbits=-15)
    return deflating.compress(body) + deflating.flush()


def with_header_fields(body):
    """gzip with each optional field of its header: extra, name, comment, checksum."""
    extra = b"\x05\x00extra" + b"name\x00" + b"comment\x00" + b"\x00\x00"
    return b"\x1f\x8b\x08\x1e" + bytes(6) + extra + gzip.compress(body)[10:]


def unfinished(body):
    compressing = zlib.compressobj(9, wbits=31)
    return compressing.compress(body) + compressing.flush(zlib.Z_SYNC_FLUSH)


CODED = {
    "gzip": gzip.compress(PAGE),
    "deflate": zlib.compress(PAGE),
    "br": brotli.compress(PAGE),
    "zstd": zstd.compress(PAGE),
}
GZIP, ZLIB = CODED["gzip"], CODED["deflate"]

WHOLE = {
    **{name: (name, body) for name, body in CODED.items()},
    **{f"{name}, then garbage": (name, body + 9 * b"garbage") for name, body in CODED.items()},
    "raw deflate": ("deflate", raw_deflate(PAGE)),
    "gzip by another name": (" X-GZIP ", GZIP),
    "gzip with all header fields": ("gzip", with_header_fields(PAGE)),
    "gzip with a wrong checksum": ("gzip", GZIP[:-8] + bytes(4) + GZIP[-4:]),
    "gzip with a wrong length": ("gzip", GZIP[:-4] + bytes(4)),
    "gzip without its last eight bytes": ("gzip", GZIP[:-8]),
    "zlib without its checksum": ("deflate", ZLIB[:-4]),
    "gzip in two members": ("gzip", gzip.compress(PAGE[:99]) + gzip.compress(PAGE[99:])),
    "zstd in two frames": ("zstd", zstd.compress(PAGE[:99]) + zstd.compress(PAGE[99:])),
    "gzip of gzip": ("gzip, gzip", gzip.compress(GZIP)),
    "gzip of deflate": ("deflate,gzip", gzip.compress(ZLIB)),
    "brotli twice": ("br", 2 * CODED["br"]),
    "zlib twice": ("deflate", 2 * ZLIB),
    **{f"plain, said {name!r}": (name, PAGE) for name in ("utf-8", "none", "identity", "aws", "")},
    "gzip and nothing": ("gzip, identity", GZIP),
    "gzip behind a comma": (",gzip ,", GZIP),
    "gzip of what is not coded": ("utf-8, gzip", GZIP),
}
"""By what it is: the Content-Encoding of `PAGE`, and the body."""

EMPTY = {f"nothing, said {name}": (name, b"") for name in CODED}

GARBAGE = bytes(range(255)) * 9
NOT_DECODED = {
    **{f"plain, said {name}": (name, PAGE) for name in CODED},
    **{f"a line, said {name}": (name, b"User-agent: *\nDisallow: /\n") for name in CODED},
    **{f"garbage, said {name}": (name, GARBAGE) for name in CODED},
    "a broken gzip": ("gzip", GZIP[:200] + bytes(200) + GZIP[400:]),
    "gzip, said twice": ("gzip, gzip", GZIP),
    "gzip, said deflate": ("deflate", GZIP),
    "zlib, said gzip": ("gzip", ZLIB),
    "six times gzip": (6 * "gzip,", b"x"),
    "2,000 members": ("gzip", 2_000 * gzip.compress(b"")),
    "2,000 frames": ("zstd", 2_000 * zstd.compress(b"")),
}
CUT = {
    **{f"half of {name}": (name, body[: len(body) // 2]) for name, body in CODED.items()},
    "half of raw deflate": ("deflate", raw_deflate(PAGE)[:2_000]),
    "three bytes of gzip": ("gzip", GZIP[:3]),
    "a byte of gzip": ("gzip", GZIP[:1]),
    "half of a second member": ("gzip", GZIP + GZIP[:2_000]),
    "half of gzip of gzip": ("gzip, gzip", gzip.compress(GZIP[:2_000])),
    "gzip that nobody finished": ("gzip", unfinished(PAGE)),
    "brotli without its last byte": ("br", CODED["br"][:-1]),
    "zstd without its last byte": ("zstd", CODED["zstd"][:-1]),
}


def undone(coding, body):
    return decoded(body, [coding.encode()])


def test_what_browsers_read_is_read():
    assert {kind for kind, coded in WHOLE.items() if undone(*coded).body != PAGE} == set()
    assert {undone(*coded).fault for coded in WHOLE.values()} == {""}
    assert {undone(*coded)[::2] for coded in EMPTY.values()} == {(b"", "")}


def test_what_cannot_be_decoded_is_told_from_what_is_cut():
    assert {kind: undone(*coded).fault for kind, coded in NOT_DECODED.items()} == dict.fromkeys(
        NOT_DECODED, "not decoded"
    )
    assert {kind: undone(*coded).fault for kind, coded in CUT.items()} == dict.fromkeys(
        CUT, "cut short"
    )
    assert all(PAGE.startswith(undone(*coded).body[:1_000]) for coded in CUT.values())


def test_header_lines_are_one_list():
    assert decoded(gzip.compress(ZLIB), [b"deflate", b"gzip"]).body == PAGE


def test_codings_that_are_unknown_are_named():
    assert decoded(GZIP, [b"UTF-8, gzip, identity"]).unknown == [b"utf-8"]


@pytest.mark.parametrize("name", list(CODED))
def test_no_body_grows_beyond_a_limit(name):
    coded = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
        "zstd": zstd.compress,
    }[name](bytes(100_000))
    assert decoded(coded, [name.encode()], 99_999) == (b"", [], "too large")
    assert decoded(coded, [name.encode()], 100_000) == (bytes(100_000), [], "")


TYPES = [
    # Content-Type lines, X-Content-Type-Options, body, type
    (["text/html"], "", b"", "text/html"),
    (["Text/HTML ; charset=x"], "", b"", "text/html"),
    (["text/html, text/html"], "", b"", "text/html"),
    (["text/html,text/html;charset=utf-8"], "", b"", "text/html"),
    (["text/plain", "text/html"], "", b"", "text/html"),
    (["text/html", "text/plain"], "", b"<html>", "text/plain"),
    (["text/html, text/plain"], "", b"<html>", "text/plain"),
    (["text/html, */*"], "", b"", "text/html"),
    (["text/html, text"], "", b"", "text/html"),
    (["text/html;x=\", text/plain\""], "", b"", "text/html"),
    (["text/plain;x=\"\\\", text/html"], "", b"<html>", "text/plain"),
    (["application/xhtml+xml, */*;q=1"], "", b"", "application/xhtml+xml"),
    (["image/png"], "", b"<html>", "image/png"),
    (["text/html, unknown/unknown"], "", b"plain", "text/plain"),
    *((lines, "", b"<html>", "text/html") for lines in (
        [], [""], ["*/*"], ["unknown/unknown"], ["application/unknown"], ["text"], ["text/"],
        ["/html"], ["text /html"], ["text/html/x"], ["te(xt/html"], ["*/*;charset=utf-8"], [";"],
        ["UNKNOWN/unknown; x"], [",", ", ,"],
    )),
    *(([], "", body, "text/html") for body in (
        b"<!DOCTYPE HTML>", b"\t\n\f\r <!doctype html ", b"<HeAd>", b"<script >", b"<iframe ",
        b"<h1>", b"<div ", b"<font ", b"<table>", b"<a href=x>", b"<style>", b"<title>", b"<b>",
        b"<body>", b"<br>", b"<p>", b"<!-- x -->", b"<!-->",
    )),
    *(([], "", body, "text/plain") for body in (
        b"", b"plain", b"<doctype html>", b"<!doctype html", b"<html", b"<html\n>", b"<h2>",
        b"<pre>", b"<a/>", b"text <html>", b"\xef\xbb\xbf<html>", b"\xff\xfe<\x00", b"<!--x",
    )),
    ([], "", b" <?xml version='1.0'?><html>", "text/xml"),
    ([], "", b"text\x00", "application/octet-stream"),
    ([], "", b"\x0b<html>", "application/octet-stream"),
    ([], "nosniff", b"<html>", "text/plain"),
    (["*/*"], " NoSniff , x", b"<html>", "text/plain"),
    ([], "x, nosniff", b"<html>", "text/html"),
    (["text/html"], "nosniff", b"", "text/html"),
    (["text/plain"], "", b"\x00\x01", "application/octet-stream"),
    (["text/plain"], "nosniff", b"\x00\x01", "text/plain"),
    (["text/plain; charset=UTF-8"], "", b"\x00", "application/octet-stream"),
    (["text/plain; charset=utf-8"], "", b"\x00", "text/plain"),
    (["text/plain"], "", b"\xfe\xff\x00<", "text/plain"),
    (["text/plain"], "", b"<html>", "text/plain"),
    (["text/plain"], "", 1_445 * b"x" + b"\x00", "text/plain"),
]  # fmt: skip


def test_the_type_of_a_response_is_that_of_the_mime_sniffing_standard():
    for lines, options, body, expected in TYPES:
        found = computed_type([line.encode() for line in lines], [options.encode()], body)
        assert found.essence == expected, (lines, options, body)


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("text/html;charset=gbk, text/html;charset=big5", "text/html;charset=big5"),
        ("text/html;charset=gbk, text/html", "text/html;charset=gbk"),
        ("text/plain;charset=gbk, text/html", "text/html"),
        ("text/html;charset=gbk, */*;charset=big5", "text/html;charset=gbk"),
        ("unknown; charset=gbk", ""),
    ],
)
def test_the_charset_is_that_of_the_type_that_counts(line, header):
    assert supplied_type((line.encode(),)).header == header


@cache
def served():
    coded = [*WHOLE.values(), *NOT_DECODED.values()]
    return [(coding, {"Content-Type": "text/html"}, body) for coding, body in coded]


UNLIKE_CHROMIUM = {
    *("zstd, then garbage", "zlib without its checksum", "gzip in two members", "gzip and nothing"),
    *("gzip behind a comma", "gzip of what is not coded", "six times gzip", "2,000 members"),
    "2,000 frames",
}
"""What Chromium reads of these is less, or nothing, or (the last three) an empty page."""

READER = """<!doctype html><body><script>(async () => {
  const seen = [];
  for (let n = 0; n < N_BODIES; n++)
    try { seen.push((await (await fetch("/" + n)).text()).length) } catch { seen.push(null) }
  document.body.textContent = "seen:" + encodeURIComponent(JSON.stringify(seen)) + ":";
})();</script>"""


def answer(path):
    """Return headers and body of a page by its number, or of the one that reads them all."""
    number, html = path.strip("/"), {"Content-Type": "text/html"}
    if number.isdigit():
        coding, headers, body = served()[int(number)]
        return {**headers, "Content-Encoding": coding}, body
    return html, b"" if number else READER.replace("N_BODIES", str(len(served()))).encode()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_reads_the_same_bodies(tmp_path):
    with served_by(answer) as url:
        options = ["--virtual-time-budget=600000", f"--user-data-dir={tmp_path}", "--dump-dom"]
        done = run_to_end([str(CHROMIUM), *FLAGS, *options, url], check=True)
    seen = json.loads(unquote(done.stdout.partition("seen:")[2].partition(":")[0]))
    kinds = [*WHOLE, *NOT_DECODED]
    expected = [len(PAGE)] * len(WHOLE) + [None] * len(NOT_DECODED)
    assert len(seen) == len(kinds)
    unlike = {kind for kind, n, is_n in zip(kinds, expected, seen, strict=True) if n != is_n}
    assert unlike - UNLIKE_CHROMIUM == set()


def coded(coding, body, *headers):
    return raw(body, f"Content-Encoding: {coding}", *headers)


def crawled(answers, tmp_path, settings=None, spider=None):
    """Crawl pages by their numbers from a home page that links to them; return run and store."""

    def answer(host, path):
        if path == "/":
            return raw(b"<title>t</title>" + b"".join(b"<a href=/%d>x</a>" % n for n in numbers))
        number = path[1:]
        return answers[int(number)] if number.isdigit() else raw(b"", status="404 No")

    numbers = range(len(answers))
    store = tmp_path / "job" / "crawl.sqlite"
    kept = {"JOBDIR": str(tmp_path / "job"), "CRAWLPRIO_STORE": "crawl.sqlite", **(settings or {})}
    with RawSite(answer) as site:
        run = crawl(site, kept) if spider is None else run_spider(spider, kept, site=site)
    return run, store, [path for _, path in site.requests]


def outcomes(store):
    rows = query(store, "SELECT url, error FROM visits JOIN pages ON pages.id = page ORDER BY seq")
    return {int(url[14:]): error for url, error in rows if url[14:].isdigit()}


LINK = b"<!doctype html><title>t</title><a href=/none>x</a>"


def answers_of(kinds):
    return [coded(*each) for each in kinds.values()]


def test_a_page_that_cannot_be_read_is_failed_with_its_cause_and_the_next_run_asks_again(
    tmp_path, capsys
):
    kinds = {**NOT_DECODED, **CUT}
    bad = [*answers_of(kinds), raw(b"x", "Content-Length: 9"), coded("magic", GARBAGE)]
    run, store, _ = crawled([*bad, raw(b"<title>t</title>")], tmp_path)
    causes = [*["not decoded"] * len(NOT_DECODED), *["cut short"] * len(CUT)]
    causes += ["cut short", "not decoded", ""]
    assert outcomes(store) == dict(enumerate(causes))
    assert run.stats["crawlprio/pages_fetched"] == 2
    failed = {"not decoded": len(NOT_DECODED) + 1, "cut short": len(CUT) + 1}
    assert make_receipt(store)["failed"] == failed
    assert make_receipt(store)["coverage"]["at_least"] < 1
    assert sorted(run.stats["crawlprio/failed_because"].split(", ")) == sorted(
        f"{cause}: {n}" for cause, n in failed.items()
    )
    run_command("explain", str(store), "http://a.test/0")
    said = "http://a.test/0 could not be fetched: not decoded. The next run asks for it again.\n"
    assert capsys.readouterr().out.startswith(said)
    run, store, asked = crawled([raw(LINK)] * len(causes), tmp_path)
    assert sorted(asked) == sorted([*(f"/{n}" for n in range(len(causes) - 1)), "/none"])
    receipt = make_receipt(store)
    assert (receipt["got"]["pages"], receipt["failed"]) == (len(causes) + 1, {"HTTP 404": 1})


def test_a_page_that_browsers_read_is_got(tmp_path):
    run, store, _ = crawled(answers_of({**WHOLE, **EMPTY}), tmp_path)
    assert set(outcomes(store).values()) == {""}
    assert run.stats["crawlprio/pages_fetched"] == 1 + len(WHOLE) + len(EMPTY)


def test_what_came_of_a_body_is_the_page_if_losses_are_no_failures(tmp_path):
    cut = gzip.compress(LINK + PAGE)[:4_000]
    answers = [coded("gzip", cut), raw(LINK, "Content-Length: 999")]
    run, store, asked = crawled(answers, tmp_path, {"DOWNLOAD_FAIL_ON_DATALOSS": False})
    assert set(outcomes(store).values()) == {""}
    assert asked.count("/none") == 1
    assert run.stats["crawlprio/pages_fetched"] == 3


def test_the_body_of_an_error_or_a_redirect_need_not_be_readable(tmp_path):
    broken = ("Content-Encoding: gzip",)
    answers = [
        raw(b"plain", *broken, status="404 No"),
        raw(b"plain", *broken, "Location: /none", status="302 Found"),
        raw(b"", *broken, status="204 None"),
    ]
    _, store, _ = crawled(answers, tmp_path)
    assert make_receipt(store)["failed"] == {"HTTP 404": 2}


class Reads(Spider):
    """A spider of a project; it knows nothing of crawlprio."""

    name = "reads"
    start_urls = ("http://a.test/",)

    def parse(self, response):
        yield {"url": response.url}
        for link in response.css("a"):
            yield response.follow(link, callback=self.parse, errback=self.failed)

    def failed(self, failure):
        yield {"failed": failure.request.url}


def test_under_the_add_on_a_page_that_cannot_be_read_is_failed_too(tmp_path):
    answers = [coded("br", PAGE), coded("gzip", GZIP[:99]), coded("gzip", GZIP)]
    run, store, _ = crawled(answers, tmp_path, ADDON, Reads)
    assert outcomes(store) == {0: "not decoded", 1: "cut short", 2: ""}
    assert sorted(map(str, run.items)) == [
        "{'failed': 'http://a.test/0'}",
        "{'failed': 'http://a.test/1'}",
        "{'url': 'http://a.test/'}",
        "{'url': 'http://a.test/2'}",
    ]


class Breaks:
    """A downloader middleware of a project that fails on what came."""

    def process_response(self, request, response):
        if request.url.endswith("/0"):
            raise ValueError("no page of mine")
        return response


def test_a_page_that_a_middleware_could_not_read_is_failed_by_the_name_of_its_error(tmp_path):
    settings = {**ADDON, "DOWNLOADER_MIDDLEWARES": {Breaks: 1}}
    run, store, _ = crawled([raw(LINK)], tmp_path, settings, Reads)
    assert outcomes(store) == {0: "ValueError"}
    assert run.stats["crawlprio/pages_fetched"] == 1


ROBOTS = b"User-agent: *\nDisallow: /no\n"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("answer", "may_fetch", "may_fetch_no"),
    [
        pytest.param(coded("gzip", gzip.compress(ROBOTS)), True, False, id="gzip"),
        pytest.param(coded("none", ROBOTS), True, False, id="plain"),
        pytest.param(coded("gzip", ROBOTS), False, False, id="plain, said gzip"),
        pytest.param(coded("br", ROBOTS), False, False, id="plain, said br"),
        pytest.param(coded("deflate", ROBOTS), False, False, id="plain, said deflate"),
        pytest.param(coded("gzip", gzip.compress(ROBOTS)[:20]), False, False, id="cut"),
        pytest.param(coded("magic", GARBAGE), False, False, id="unknown"),
        pytest.param(raw(ROBOTS[:9], "Content-Length: 99"), False, False, id="shorter"),
        pytest.param(
            raw(b"plain", "Content-Encoding: gzip", status="404 No"), True, True, id="none"
        ),
    ],
)
@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_a_robots_txt_that_cannot_be_decoded_allows_nothing(
    answer, may_fetch, may_fetch_no, fails_on_loss
):
    def answers(host, path):
        return answer if path == "/robots.txt" else raw(b"<a href=/no>x</a>")

    settings = {"ROBOTSTXT_OBEY": True, "DOWNLOAD_FAIL_ON_DATALOSS": fails_on_loss}
    with RawSite(answers) as site:
        crawl(site, settings)
    asked = [path for _, path in site.requests]
    assert ("/" in asked, "/no" in asked) == (may_fetch, may_fetch_no)


def test_pages_are_read_as_html_by_the_type_that_the_standard_computes(tmp_path):
    answers, expected = [], []
    for lines, options, body, kind in TYPES:
        if b"\xff\xfe" in body or len(body) > 1_000:
            continue
        number = len(answers)
        headers = [f"Content-Type: {line}" for line in lines]
        headers += [f"X-Content-Type-Options: {options}"] if options else []
        head = "\r\n".join(["HTTP/1.1 200 OK", "Connection: close", *headers])
        text = body + b"\n--></title></style></script></iframe><a href=/found/%d>" % number
        answers.append(head.encode() + b"\r\n\r\n" + text)
        expected += [f"/found/{number}"] * (kind in ("text/html", "application/xhtml+xml"))
    _, _, asked = crawled(answers, tmp_path)
    assert sorted(path for path in asked if path.startswith("/found")) == sorted(expected)
