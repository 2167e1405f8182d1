"""Encodings of pages: by the rules of the HTML standard, and as a real browser reads them."""

import json
import shutil
import subprocess
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from crawlprio.web.anchors import printable, squeeze
from crawlprio.web.html import declared_encoding, decoded, parse_page

CHROMIUM = shutil.which("chromium")


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
    marked = "<title>é 你</title><a href='?é'>é</a>"
    found += [
        Served(marked.encode(name), "text/html; charset=koi8-r") for name in ("utf-8-sig", "utf-16")
    ]
    return found


class Pages(BaseHTTPRequestHandler):
    """Serves the pages, and one that reads them all in frames and writes down what it saw."""

    def do_GET(self):
        number = self.path.strip("/").partition("?")[0]
        if number.isdigit():
            page = pages()[int(number)]
        elif self.path == "/":
            page = Served(READER.replace("N_PAGES", str(len(pages()))).encode(), "text/html")
        else:
            page = Served(b"", "text/plain")
        self.send_response(200)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        self.wfile.write(page.body)

    def log_message(self, format, *args):
        pass


READER = """<!doctype html><body><script>
async function read(number) {
  const frame = document.createElement("iframe");
  frame.src = "/" + number;
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  const links = [...frame.contentDocument.links].map(link => [link.href, link.textContent]);
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


@contextmanager
def served():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install chromium)")
def test_links_and_titles_are_those_that_a_browser_sees(tmp_path):
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --virtual-time-budget=600000"
    )
    with served() as url:
        line = [str(CHROMIUM), *flags.split(), f"--user-data-dir={tmp_path}", "--dump-dom", url]
        done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=300)
        seen = json.loads(unquote(done.stdout.partition("seen:")[2].partition(":")[0]))
        assert len(seen) == len(pages())
        for number, (page, (title, links)) in enumerate(zip(pages(), seen, strict=True)):
            ours = parse_page(page.body, f"{url}{number}", content_type=page.content_type)
            assert [ours.title, ours.urls, ours.anchors] == [
                printable(squeeze(title)),
                [link.partition("#")[0] for link, _ in links],
                [printable(squeeze(text)) for _, text in links],
            ], page
