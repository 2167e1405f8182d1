"""Pages are read by the rules of the HTML standard, and as a real browser reads them.

Encodings, and what belongs to a page: titles, bases and links within SVG, MathML and shadow roots.
"""

import json
import subprocess
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import pytest
from browsers import CHROMIUM, FLAGS, served_by

from crawlprio.web.anchors import printable, squeeze
from crawlprio.web.html import declared_encoding, decoded, parse_page
from crawlprio.web.urls import normalise_url


@pytest.mark.parametrize(
    ("start", "encoding"),
    [
        ("<meta charset=iso-8859-2>", "iso8859-2"),
        ("<META CHARSET = ' Latin2 '>", "iso8859-2"),
        ("<meta charset=bogus><meta charset=koi8-r>", "koi8-r"),
        ("<meta charset='koi8-r\"'><meta charset=cp866>", "cp866"),
        ("<meta http-equiv=content-type content='text/html; charset = \"koi8-r\"'>", "koi8-r"),
        ("<meta content='charset=koi8-r; x' http-equiv=Content-Type>", "koi8-r"),
        ("<meta content='text/html; charset=koi8-r'>", None),
        ("<meta http-equiv='Content-Type ' content='text/html; charset=koi8-r'>", None),
        ("<meta http-equiv=Content-Type content='text/html; charset=&quot;koi8-r'>", None),
        ("<!-- <meta charset=koi8-r> -->", None),
        ("<p title='<meta charset=koi8-r>'>", None),
        ("<p title='<meta charset=koi8-r>", None),
        ("<meta charset=koi8-r", None),
        ("<script>'<meta charset=koi8-r>'</script>", "koi8-r"),
        ("<p>" + 1_500 * "-" + "<script>'<meta charset=koi8-r>'</script>", None),
        ("<p>" + 1_500 * "-" + "<meta charset=koi8-r>", "koi8-r"),
        ("<meta charset=utf-16be>", "utf-8"),
        ("<meta charset=x-user-defined>", None),
        ("<meta charset=utf-7>", None),
    ],
)
def test_a_meta_declares_what_the_standard_says(start, encoding):
    assert declared_encoding(start.encode()) == encoding


def test_a_mark_counts_before_the_header_and_the_header_before_a_meta():
    body = b"<meta charset=koi8-r>\xe9"
    assert declared_encoding(b"\xef\xbb\xbf" + body, "text/html; charset=cp866") == "utf-8"
    assert declared_encoding(body, "text/html; charset=cp866") == "cp866"
    assert declared_encoding(body, "text/html; charset=bogus") == "koi8-r"


def test_what_is_not_declared_is_utf_8_if_it_can_be_and_windows_1252_otherwise():
    assert decoded("é".encode()) == ("é".encode(), "utf-8")
    assert decoded(b"\x80 \x81 \xe9") == ("€ \x81 é", "cp1252")
    assert decoded(b"plain") == (b"plain", "")


HTML, XHTML = "text/html", "application/xhtml+xml"


@pytest.mark.parametrize(
    ("start", "content_type", "encoding"),
    [
        ("<?xml version='1.0' encoding='koi8-r'?>", HTML, "koi8-r"),
        ("<?xml version='1.0' encoding='koi8-r'?>", "", "koi8-r"),
        ("<?xml version='1.0' encoding='koi8-r'?><meta charset=cp866>", HTML, "cp866"),
        ("<?xml version='1.0' encoding='koi8-r'?><meta charset=cp866>", XHTML, "koi8-r"),
        ("<?xml version='1.0' encoding='koi8-r'?>", f"{HTML}; charset=cp866", "cp866"),
        ("<?xml version='1.0' encoding='koi8-r'?>", f"{XHTML}; charset=cp866", "cp866"),
        ("<?xml version='1.0' encoding='koi8-r'?>", f"{HTML}; charset=bogus", "koi8-r"),
        ("<?xml version='1.0' encoding='utf-16'?>", HTML, "utf-8"),
        ("<?xml version='1.0' encoding='bogus'?>", HTML, None),
        ("<?xml version='1.0' encoding='koi8-r'", HTML, None),
        ("<p><?xml version='1.0' encoding='koi8-r'?>", HTML, None),
        ("<?xml version='1.0'?><p encoding='koi8-r'>", HTML, None),
        ("<meta charset=cp866>", XHTML, "utf-8"),
        ("<meta charset=cp866>\xe9", XHTML, "cp866"),
        ("<?xml version='1.0'?>", f"{XHTML}; profile=x", "utf-8"),
    ],
)
def test_an_xml_declaration_counts_after_a_meta_in_html_and_alone_in_xhtml(
    start, content_type, encoding
):
    assert declared_encoding(start.encode("latin-1"), content_type) == encoding


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_an_xml_declaration_in_utf_16_needs_no_mark(codec):
    body = "<?xml version='1.0'?><title>é</title><a href='/é?é'>é</a>".encode(codec)
    page = parse_page(body, "http://a.test/")
    assert (page.title, page.urls) == ("é", ["http://a.test/%C3%A9?%C3%A9"])


@pytest.mark.parametrize(
    ("label", "text", "query"),
    [
        ("gbk", "€中🙂☃ǹ", "%80%D6%D0%26%23128578%3B%26%239731%3B%A8%BF"),
        ("gb18030", "€中🙂", "%A2%E3%D6%D0%950%852"),
        ("big5", "€中ë", "%A3%E1%A4%A4%26%23235%3B"),
        ("euc-jp", "①\uff5eｶ丂", "%AD%A1%A1%C1%8E%B6%26%2319970%3B"),
        ("shift_jis", "①\uff5eｶ￢", "%87@%81`%B6%81%CA"),
        ("iso-2022-jp", "日本é語", "%1B$BF|K%5C%1B(B%26%23233%3B%1B$B8l%1B(B"),
        ("windows-1252", "€中", "%80%26%2320013%3B"),
        ("shift_jis", "表", "%95%5C"),
        ("gb2312", "中", "%D6%D0"),
        ("iso-8859-2", "ü中ł", "%FC%26%2320013%3B%B3"),
    ],
)
def test_a_query_is_written_as_browsers_write_it(label, text, query):
    found = parse_page(
        f"<meta charset={label}><a href='?{escaped(text)}'>".encode(), "http://a.test/"
    )
    assert [unquote_to_bytes(url) for url in found.urls] == [
        unquote_to_bytes(f"http://a.test/?{query}")
    ]


def escaped(text):
    return "".join(f"&#{ord(char)};" if ord(char) > 0x9F else char for char in text)


@pytest.mark.parametrize("label", ["gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr"])
def test_what_is_no_text_takes_no_ascii_with_it_and_never_shifts_what_follows(label):
    """At the end, before a tag, and before two bytes that are a character."""
    char = {"gbk": "中", "gb18030": "中", "big5": "中", "euc-kr": "가"}.get(label, "日")
    whole = char.encode(CODECS.get(label, label))
    for broken in (b"\x81", b"\xfc", b"\x85\xff", b"\xfc\xff"):
        body = b"<meta charset=%b><title>%b</title>" % (label.encode(), broken)
        body += b"<a title='%b' href=/%b>%b</a>" % (broken, b"x", broken + b"\xff" + whole)
        page = parse_page(body + broken[:1], "http://a.test/", want_text=True)
        assert page.urls == ["http://a.test/x"]
        assert page.title.endswith("\ufffd")
        assert page.anchors[0].endswith(char)
        assert page.text.endswith("\ufffd")


class Served(NamedTuple):
    """A page as a server sends it; the codec is Python's name of the encoding `label`."""

    body: bytes
    content_type: str


TEXTS = {
    "Příliš žluťoučký kůň": ["windows-1250", "iso-8859-2"],
    "Съешь ещё этих мягких": ["windows-1251", "koi8-r", "iso-8859-5", "x-mac-cyrillic", "ibm866"],
    "Їжак ґречно": ["koi8-u"],
    "Où est l'été, garçon": ["windows-1252", "iso-8859-1", "macintosh", "iso-8859-15"],
    "Ξεσκεπάζω την": ["windows-1253", "iso-8859-7"],
    "Şişli \u0131ğd\u0131r": ["windows-1254", "iso-8859-9"],
    "שלום עולם": ["windows-1255"],
    "مرحبا بالعالم": ["windows-1256"],
    "Ąžuolas šaltas": ["windows-1257", "iso-8859-13"],
    "สวัสดีชาวโลก": ["windows-874"],
    "你好世界": ["gbk", "gb18030", "big5"],
    "こんにちは世界": ["shift_jis", "euc-jp", "iso-2022-jp"],
    "안녕하세요": ["euc-kr"],
    "naïve ☃ 你好": ["utf-8"],
}
ICON = "<svg><title>icon</title><base href=/svg/></svg>"
OPEN = "<template shadowrootmode=open>"
STRUCTURES = [
    f"{ICON}<a href=x>x</a>",
    f"<title></title>{ICON}<a href=x>x</a>",
    f"{ICON}<title>late</title><base href=/late/><a href=x>x</a>",
    f"<p>{ICON}<svg><g><title>deep</title></g></svg><title>late</title>",
    "<svg><foreignObject><title>inside</title><base href=/in/></foreignObject></svg><a href=x>",
    "<svg><desc><title>inside</title></desc></svg><title>late</title>",
    "<svg><title><b><title>inside</title></b></title></svg><title>late</title>",
    "<math><title>no</title><base href=/math/></math><title>late</title><a href=x>x</a>",
    "<math><mi><title>inside</title><base href=/mi/></mi></math><a href=x>x</a>",
    "<math><mi><svg><title>no</title></svg></mi></math><title>late</title>",
    "<title> </title><title>second</title>",
    "<base target=x><base href=/b/><base href=/c/><a href=x>x</a>",
    f"<my-nav>{OPEN}<a href=x>shadow</a></template><a href=y>light</a></my-nav>",
    f"<x-a>{OPEN}<a href=1>1</a></template>{OPEN}<a href=2>2</a></template><a href=3>3</a></x-a>",
    f"<x-a>{OPEN}<div>{OPEN}<a href=1>1</a></template><a href=2>2</a></div></template></x-a>",
    f"<x-a>{OPEN}{OPEN}<a href=1>1</a></template><a href=2>2</a></template></x-a>",
    f"<ul>{OPEN}<a href=1>1</a></template></ul><p>{OPEN}<a href=2>2</a></template>",
    f"<head>{OPEN}<a href=1>1</a></template></head><body>{OPEN}<a href=2>2</a></template>",
    f"<table>{OPEN}<a href=1>1</a></template></table>",
    f"<template><div>{OPEN}<a href=1>1</a></template></div></template><a href=2>2</a>",
    f"<x-a>{OPEN}<template><a href=1>1</a></template><a href=2>2</a></template></x-a>",
    f"<x-a>{OPEN}<title>no</title><base href=/no/><a href=1>1</a></template></x-a><title>t</title>",
    "<x-a><template shadowRootMode=OPEN><a href=1>1</a></template></x-a>",
    "<x-a><template shadowrootmode=bogus><a href=1>1</a></template></x-a>",
    "<x-a><template shadowroot=open><a href=1>1</a></template></x-a>",
    "<x-a><template shadowrootmode><a href=1>1</a></template></x-a>",
    *(
        f"<a href=0>0</a><{tag}><a href=1>1</a></{tag}><a href=2>2</a>"
        for tag in ("iframe", "noembed", "noframes", "object", "video", "xmp", "textarea", "style")
    ),
    "<iframe><!--</iframe><a href=1>1</a>--><a href=2>2</a>",
]
"""Pages about what is theirs."""

DECLARED_IN_XML = {
    **{"windows-1251": "windows-1251", "koi8-r": "koi8-r", "bogus": "windows-1251"},
    **{"utf-8": "utf-8", "utf-16": "utf-8"},
}
"""By label: the codec of the page that declares it; what is readable as ASCII is no UTF-16."""

INVALID = [
    *(b"", b"\x81", b"\xe0", b"\xfe", b"\xff", b"\x8e", b"\x8f", b"\x8f\xa1", b"\xa1 "),
    b"\x81\x30",
    *(b"\x81\x30\x81", b"\x81\x30\x81 ", b"\x81\x30\xff ", b"\xfe\x39\xfe\x39", b"\xfe\x30\x31"),
    b"\xa1\xff",
    *(b"\x81\xff\x81", b"\xfd\xfd\xfd", b"\x8e\x8e\xb1", b"\x8f\x8f\xb0\xa1", b"\xad\xa1"),
    b"\xa1\xc1\xa1\xdd",
    *(b"\xa3\xe1", b"\xa3\xa0", b"\xa0\xfd", b"\x85\x40", b"\xfa\x40\xed\x40", b"\xc9\xa1"),
    b"\xa8\xbc",
]
"""Bytes that are no text in some encodings, or text that Python's codec does not know."""

CODECS = {"x-mac-cyrillic": "mac-cyrillic", "macintosh": "mac-roman", "windows-874": "cp874"}


@cache
def pages():
    """Pages in 28 encodings, declared in each way, rightly and wrongly."""
    found = []
    for text, labels in TEXTS.items():
        for label in labels:
            codec = CODECS.get(label, label)

            def page(start, text=text, codec=codec):
                links = f"<a href='?q={text}&r=1#x'>{text}</a> <a href='/{text}'>{text} €?</a>"
                return f"{start}<title>{text}</title>{links}".encode(codec, "xmlcharrefreplace")

            equiv = f"<meta http-equiv=content-type content='text/html; charset={label}'>"
            found += [
                Served(page(""), f"text/html; charset={label}"),
                Served(page(f"<meta charset='{label}'>"), "text/html"),
                Served(page(equiv), "text/html"),
                Served(page("<meta charset=koi8-r>"), f"text/html; charset={label}"),
                Served(page(f"<meta charset={label}>"), "text/html; charset=no-such-charset"),
                Served(page("<meta charset=utf-8>"), "text/html"),
                Served(page("<meta charset=windows-1252>"), "text/html"),
            ]
    for label, codec in DECLARED_IN_XML.items():
        page = "<title>ж</title><p><a href='/ж?ж'>ж</a></p>".encode(codec)
        good = [f'<?xml version="1.0" encoding="{label}"?>', f"<?xml encoding = '{label}' ?>"]
        meta = "<meta charset=cp866>"
        starts = [*good, good[0] + meta, good[0] + 1_500 * "-" + meta]
        if codec != "utf-8":  # which is recognised where nothing is declared
            starts += [f" {good[0]}", f"<?xml encoding={label}?>", f"<?xml encoding='{label}?>"]
        found += [
            Served(start.encode() + page, content_type)
            for start in starts
            for content_type in ("text/html", "text/html; charset=koi8-u")
        ]
    for label in ("windows-1251", "koi8-r", "utf-8", None):
        declaration = f'<?xml version="1.0" encoding="{label}"?>' if label else ""
        page = f"""{declaration}<html xmlns="http://www.w3.org/1999/xhtml"><head>
            <meta charset="cp866"/><title>ж</title></head><body><a href="/ж?ж">ж</a></body>
            </html>"""
        body = page.encode(label or "utf-8")
        found += [Served(body, "application/xhtml+xml"), Served(body, "application/xhtml+xml;x")]
    found += [
        Served(
            f"<meta charset={label}><title>".encode()
            + b"\x80-%b</title>" % sequence
            + b"<a href='?\x80-%b'>%b</a>" % (sequence, sequence),
            "text/html",
        )
        for label in ("gbk", "gb18030", "big5", "euc-jp", "shift_jis", "euc-kr", "iso-2022-jp")
        for sequence in INVALID
    ]
    found += [Served(f"<!doctype html>{page}".encode(), "text/html") for page in STRUCTURES]
    marked = "<title>é 你</title><a href='?é'>é</a>"
    found += [
        Served(marked.encode(name), "text/html; charset=koi8-r") for name in ("utf-8-sig", "utf-16")
    ]
    return found


def answer(path):
    """Return headers and body of a page by its number, or of the one that reads them all."""
    number = path.strip("/").partition("?")[0]
    page = Served(b"", "text/plain")
    if number.isdigit():
        page = pages()[int(number)]
    elif path == "/":
        page = Served(READER.replace("N_PAGES", str(len(pages()))).encode(), "text/html")
    return {"Content-Type": page.content_type}, page.body


READER = """<!doctype html><body><script>
function linksIn(root) {
  return [...root.querySelectorAll("*")].flatMap(node => [
    ...(node.matches("a[href],area[href]") && node.namespaceURI.endsWith("xhtml") ? [node] : []),
    ...(node.shadowRoot ? linksIn(node.shadowRoot) : []),
  ]);
}
async function read(number) {
  const frame = document.createElement("iframe");
  frame.src = "/" + number;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  const links = linksIn(frame.contentDocument).map(link => [link.href, link.textContent]);
  const seen = [frame.contentDocument.title, links];
  frame.remove();
  return seen;
}
(async () => {
  const seen = [];
  for (let number = 0; number < N_PAGES; number++) seen.push(await read(number));
  document.body.textContent = "seen:" + encodeURIComponent(JSON.stringify(seen)) + ":";
})();
</script>"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)")
def test_links_and_titles_are_those_that_a_browser_sees(tmp_path):
    flags = [*FLAGS, "--virtual-time-budget=600000", f"--user-data-dir={tmp_path}"]
    with served_by(answer) as url:
        line = [str(CHROMIUM), *flags, "--dump-dom", url]
        done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=300)
        seen = json.loads(unquote(done.stdout.partition("seen:")[2].partition(":")[0]))
        assert len(seen) == len(pages())
        for number, (page, (title, links)) in enumerate(zip(pages(), seen, strict=True)):
            ours = parse_page(page.body, f"{url}{number}", content_type=page.content_type)
            assert [ours.title, ours.urls, ours.anchors] == [
                printable(squeeze(title)),
                [normalise_url(link) for link, _ in links],
                [printable(squeeze(text)) for _, text in links],
            ], page
