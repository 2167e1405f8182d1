"""Sitemaps, feeds and lists of URLs are read whole within the bounds, and harmless beyond them."""

import gzip
import random
import tracemalloc

import pytest

from crawlprio.web import sitemaps
from crawlprio.web.sitemaps import Named, SitemapReader


def read(body, url="", charset=""):
    reader = SitemapReader(url, charset)
    return [named for some in reader.read(body) for named in some], reader


def peak_of(call):
    """Return what a call returns, and the bytes that Python allocated for it."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def urls(body, *where):
    return [named.url for named in read(body, *where)[0]]


def urlset(*locations):
    inner = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inner}</urlset>'.encode()


FULL = b"""<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand --><?xml-stylesheet href="x.xsl"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:i="image" xmlns:x="xhtml">
  <url><loc> http://a.test/1?a=1&amp;b=2 </loc><lastmod>2026-01-02T03:04:05+00:00</lastmod>
    <changefreq>daily</changefreq><priority>0.8</priority>
    <i:image><i:loc>http://a.test/picture.png</i:loc></i:image>
    <x:link rel="alternate" hreflang="de" href="http://a.test/de"/></url>
  <url><lastmod>\x1b[2J</lastmod><priority>7</priority><loc><![CDATA[http://a.test/2]]></loc></url>
  <url><loc>/relative</loc></url><url><loc>javascript:alert(1)</loc></url><url></url>
</urlset>"""


def test_a_sitemap_names_urls_with_dates_and_priorities():
    named, reader = read(FULL)
    assert named == [
        Named("http://a.test/1?a=1&b=2", "2026-01-02T03:04:05+00:00", 0.8),
        Named("http://a.test/2"),
    ]
    assert (reader.is_index, reader.remark, reader.n_invalid) == (False, "", 2)


def test_an_index_names_sitemaps():
    named, reader = read(
        b"<sitemapindex><sitemap><loc>http://a.test/s1.xml</loc></sitemap>"
        b"<sitemap><loc>http://a.test/s2.xml</loc></sitemap></sitemapindex>"
    )
    assert [each.url for each in named] == ["http://a.test/s1.xml", "http://a.test/s2.xml"]
    assert reader.is_index


RSS = b"""<rss version="2.0" xmlns:atom="a"><channel><link>http://a.test/</link>
<item><atom:link rel="self" href="http://a.test/feed"/><link>http://a.test/1</link>
<pubDate>Mon, 02 Feb 2026 10:00:00 GMT</pubDate></item></channel></rss>"""
RDF = b"""<r:RDF xmlns:r="r" xmlns="rss1"><channel><link>http://a.test/</link></channel>
<item><title>x</title><link>http://a.test/1</link></item></r:RDF>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="http://a.test/"/>
<entry><link rel="edit" href="http://a.test/edit"/><link href="http://a.test/1"/>
<updated>2026-02-02T10:00:00Z</updated></entry></feed>"""


@pytest.mark.parametrize("body", [RSS, RDF, ATOM], ids=["rss", "rdf", "atom"])
def test_a_feed_names_the_pages_of_its_entries(body):
    assert urls(body) == ["http://a.test/1"]


def test_the_dates_of_feeds_are_kept_as_written():
    assert [read(body)[0][0].lastmod for body in (RSS, ATOM)] == [
        "Mon, 02 Feb 2026 10:00:00 GMT",
        "2026-02-02T10:00:00Z",
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_list_of_urls_has_one_a_line(end):
    lines = ["\ufeffhttp://a.test/1", "", "  http://a.test/\u00e9 ", "nonsense", "http://a.test/2"]
    found, reader = read(end.join(lines).encode())
    assert [each.url for each in found] == [
        "http://a.test/1",
        "http://a.test/%C3%A9",
        "http://a.test/2",
    ]
    assert (reader.n_invalid, reader.remark) == (1, "")


@pytest.mark.parametrize("body", [FULL, RSS, b"http://a.test/1\nhttp://a.test/2"])
def test_gzip_changes_nothing(body):
    half = len(body) // 2
    members = gzip.compress(body[:half]) + gzip.compress(body[half:])
    assert read(gzip.compress(body))[0] == read(members)[0] == read(body)[0]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "utf-8-sig"])
def test_the_encoding_is_the_one_declared(encoding):
    name = encoding.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{name}"?>' + urlset("http://a.test/\u00e9").decode()
    assert urls(text.encode(encoding)) == ["http://a.test/%C3%A9"]


def test_the_size_of_the_pieces_changes_nothing(monkeypatch):
    bodies = [FULL, RSS, ATOM, gzip.compress(FULL), b"http://a.test/1\r\nhttp://a.test/2"]
    whole = [read(body)[0] for body in bodies]
    monkeypatch.setattr(sitemaps, "PIECE", 1)
    assert [read(body)[0] for body in bodies] == whole


@pytest.mark.parametrize(
    "body",
    [b"", b" \n", b"<html><body>404</body></html>", b"<!doctype html><p>x", b"\0\1\2", b"<", b"no"],
)
def test_anything_else_is_no_sitemap(body):
    named, reader = read(body)
    assert (named, reader.remark) == ([], sitemaps.NOT_A_SITEMAP)


def test_what_is_broken_is_read_as_far_as_it_goes():
    assert urls(b"<urlset><url><loc>http://a.test/1</loc></url><url><loc>http") == [
        "http://a.test/1"
    ]
    packed = gzip.compress(b"\n".join(b"http://a.test/%d" % n for n in range(50_000)), 1)
    named, reader = read(packed[: len(packed) // 2])
    assert 1_000 < len(named) < 50_000
    assert reader.remark == sitemaps.BROKEN_GZIP
    assert named[1_000].url == "http://a.test/1000"


BROKEN = {
    "unclosed loc": ("<url><loc>http://a.test/2</url>", 40),
    "unclosed url": ("<url><loc>http://a.test/2</loc>", 40),
    "bare less": ("<url><loc>http://a.test/2</loc><t>a < b</t></url>", 40),
    "one loc too many": ("<url><loc>http://a.test/2</loc></loc></url>", 2),
    "raw and": ("<url><loc>http://a.test/2?a&b</loc></url>", 40),
}


@pytest.mark.parametrize("piece", [50, 65_536])
@pytest.mark.parametrize("kind", list(BROKEN))
def test_broken_xml_is_read_as_far_as_it_can_be_and_said(kind, piece, monkeypatch):
    monkeypatch.setattr(sitemaps, "PIECE", piece)
    entry, n_read = BROKEN[kind]
    body = urlset(*(f"http://a.test/{n}" for n in (1, *range(3, 41)))).decode()
    named, reader = read(body.replace("<url>", f"{entry}<url>", 2).replace(entry, "", 1).encode())
    assert len(named) >= n_read
    is_mended = kind in ("raw and", "bare less")
    assert reader.remark == ("" if is_mended else sitemaps.BROKEN_XML)


def test_xml_that_is_cut_is_said_and_names_no_part_of_a_url():
    body = urlset(*(f"http://a.test/{n}" for n in range(140)))
    whole, reader = read(body)
    assert (len(whole), reader.remark) == (140, "")
    for n_cut in range(20, 300):
        named, reader = read(body[:-n_cut])
        assert (named, reader.remark) == (whole[: len(named)], sitemaps.BROKEN_XML)
        assert len(named) > 130


@pytest.mark.parametrize("piece", [1, 65_536])
@pytest.mark.parametrize(
    ("declared", "charset", "codec"),
    [
        ("", "windows-1251", "windows-1251"),
        ("<?xml version='1.0' encoding='utf-8'?>", "windows-1251", "windows-1251"),
        ("<?xml version='1.0' encoding='windows-1251'?>", "", "windows-1251"),
        ("<?xml version='1.0' encoding='bogus'?>", "bogus", "utf-8"),
        ("<?xml version='1.0' encoding='windows-1251'?>", "koi8-r", "utf-8-sig"),
        ("", "", "utf-16"),
        ("<?xml version='1.0' encoding='utf-16'?>", "", "utf-16-be"),
    ],
)
def test_a_mark_counts_before_the_header_and_the_header_before_a_declaration(
    declared, charset, codec, piece, monkeypatch
):
    monkeypatch.setattr(sitemaps, "PIECE", piece)
    body = declared + urlset("http://a.test/\u0436").decode()
    named, reader = read(body.encode(codec), "", charset)
    assert ([each.url for each in named], reader.remark) == (["http://a.test/%D0%B6"], "")


def test_a_list_of_urls_has_the_encoding_of_its_header():
    body = "http://a.test/\u0436\n".encode("koi8-r")
    assert urls(body, "", "koi8-r") == ["http://a.test/%D0%B6"]


def test_xml_base_counts_inside_its_element():
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/one/">
        <entry xml:base="two/"><link href="a"/></entry><entry><link href="b"/></entry>
        <entry><link xml:base="http://b.test/" href="c"/></entry>
        <entry xml:base="http://["><link href="/d"/></entry></feed>"""
    assert urls(body, "http://a.test/feed") == [
        *("http://a.test/one/two/a", "http://a.test/one/b", "http://b.test/c", "http://a.test/d")
    ]


@pytest.mark.parametrize("piece", [1, 7, 65_536])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_raw_ampersand_is_an_ampersand(piece, encoding, monkeypatch):
    """Many sites write them; the parser dropped the name that follows one."""
    monkeypatch.setattr(sitemaps, "PIECE", piece)
    written = [
        "?a=1&b=2",
        "?a=1&amp;b=2",
        "?a&#38;b&#x26;c",
        "<![CDATA[?a=1&b=2&amp;c]]>",
        "?&",
        "?a&lt=1",
    ]
    meant = ["?a=1&b=2", "?a=1&b=2", "?a&b&c", "?a=1&b=2&amp;c", "?&", "?a&lt=1"]
    if encoding == "utf-16":  # as far as the parser reads it
        written, meant = written[1:4], meant[1:4]
    body = urlset(*(f"http://a.test/{path}" for path in written)).decode()
    body = body.replace("http://a.test/<![CDATA[", "<![CDATA[http://a.test/")
    assert urls(body.encode(encoding)) == [f"http://a.test/{path}" for path in meant]


def test_a_relative_url_is_relative_to_its_sitemap():
    body = urlset("/a", "b", "//c.test/", "?d", "http://e.test/", "", "mailto:f@a.test")
    named, reader = read(body, "https://a.test/maps/all.xml")
    assert [each.url for each in named] == [
        *("https://a.test/a", "https://a.test/maps/b", "https://c.test/"),
        *("https://a.test/maps/all.xml?d", "http://e.test/"),
    ]
    assert reader.n_invalid == 2
    named, reader = read(b"/a\nhttp://b.test/\n", "https://a.test/maps/all.txt")
    assert ([each.url for each in named], reader.n_invalid) == (["http://b.test/"], 1)


@pytest.mark.parametrize(
    "body",
    [b"http://a.test/\n" + b"x\n" * 2_000_000, urlset(*["javascript:1"] * 400_000)],
    ids=["text", "xml"],
)
def test_entries_that_are_no_urls_count_towards_the_bound(body):
    """48 kB of gzip with 24 million lines took 60 s of the crawl's thread."""
    reader = SitemapReader()
    n_pieces = sum(1 for _ in reader.read(gzip.compress(body)))
    assert reader.remark == sitemaps.TOO_MANY
    assert reader.n_invalid <= sitemaps.MAX_URLS
    assert n_pieces * sitemaps.PIECE < len(body) / 4


def test_a_sitemap_ends_at_50_000_urls():
    lines = b"\n".join(b"http://a.test/%d" % n for n in range(50_001))
    named, reader = read(lines)
    assert (len(named), reader.remark) == (50_000, sitemaps.TOO_MANY)
    named, reader = read(lines.rpartition(b"\n")[0])
    assert (len(named), reader.remark) == (50_000, "")


ENTITIES = b"<!DOCTYPE urlset [%s]>"
BOMB = b'<!ENTITY a "aaaaaaaaaa">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(10)
)


@pytest.mark.parametrize(
    "declared", [BOMB, b'<!ENTITY k "%s">' % (b"a" * 100_000)], ids=["nested", "long"]
)
def test_entities_do_not_grow(declared):
    body = ENTITIES % declared + urlset("http://a.test/" + "&k;" * 10_000)
    (named, _), peak = peak_of(lambda: read(body))
    assert named == []
    assert peak < 10_000_000


@pytest.mark.parametrize(
    "declared",
    [
        b'<!ENTITY e SYSTEM "file:///etc/hostname">',
        b'<!ENTITY e SYSTEM "http://127.0.0.1:9/">',
        b'<!ENTITY %% p SYSTEM "file:///etc/hostname"> %%p;',
    ],
)
def test_external_entities_are_not_read(declared):
    body = ENTITIES % declared.replace(b"%%", b"%") + urlset("http://a.test/x", "http://b.test/&e;")
    assert urls(body)[0] == "http://a.test/x"
    assert urls(body)[1].replace("&", "") == "http://b.test/e;"


@pytest.mark.parametrize("begin", [b"<urlset>", b""], ids=["xml", "text"])
def test_a_bomb_of_gzip_ends_at_50_mb(begin):
    bomb = gzip.compress(begin + b"\n" * 60_000_000, 1)
    (_, reader), peak = peak_of(lambda: read(bomb))
    assert reader.remark == sitemaps.TOO_LARGE
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (b"<urlset><a " + b" ".join(b"x%d='1'" % n for n in range(300_000)), "TOO_LONG_TAG"),
        (b"<urlset><!--" + b"a" * 3_000_000, "TOO_LONG_TAG"),
        (b"<!DOCTYPE a [" + b"<!ENTITY a 'b'>" * 200_000, "TOO_LONG_TAG"),
        (b"<urlset>" + b"<a>" * 30_000, "TOO_MANY_TAGS"),
        (b"<urlset>" + b"<a/>" * 30_000, "TOO_MANY_TAGS"),
    ],
    ids=["attributes", "comment", "declarations", "nested", "siblings"],
)
def test_endless_markup_ends(body, remark, monkeypatch):
    monkeypatch.setattr(sitemaps, "MAX_TAGS", 20_000)
    _, reader = read(body)
    assert reader.remark == getattr(sitemaps, remark)


def test_a_long_text_takes_no_memory():
    body = urlset("http://a.test/" + "a" * 9_000_000, "http://a.test/2")
    (named, _), peak = peak_of(lambda: read(body))
    assert [each.url for each in named] == ["http://a.test/2"]
    assert peak < 5_000_000


def test_random_damage_never_raises():
    seed = 20261122
    print("seed", seed)
    source = random.Random(seed)
    bodies = [FULL, RSS, ATOM, gzip.compress(FULL), ENTITIES % BOMB + FULL]
    for _ in range(300):
        body = bytearray(source.choice(bodies))
        for _ in range(source.randrange(1, 8)):
            body[source.randrange(len(body))] = source.randrange(256)
        for named in read(bytes(body))[0]:
            assert named.url.isprintable()
            assert named.lastmod.isprintable()
