"""Whether a replay recorded its pages' links, checked without crawlprio's own link extraction.

    python benchmarks/recorded_pairs.py WARC STORE [--pages 200] [--seed 0]

Takes random pages that were fetched with status 200, reads their bodies from the WARC file with
warcio, and extracts their links independently: libxml2's tree, Python's urljoin, w3lib's quoting.
The store must have recorded the same links, followed or outside. Each difference is counted under a
cause that was verified on the link itself, and so is the reason why a link is outside. Scrapy's
LinkExtractor gives a second opinion. The exit status is 1 if anything remains unexplained.

Not checked: anchor texts, the order of links on their page, and which pages were fetched at all. No
code is shared with crawlprio, with one exception: if libxml2's tree lacks a link or has one too
many, selectolax's standard-conforming tree is consulted too.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes, urldefrag, urljoin, urlsplit

import lxml.etree
import lxml.html
from rich.console import Console
from rich.table import Table
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from selectolax.lexbor import LexborHTMLParser
from spellings import EXACT, SAME_HREF, Spellings, join, without_scheme, without_white_space
from w3lib.encoding import html_to_unicode
from warcio.archiveiterator import ArchiveIterator

UNEXPLAINED = "unexplained"
MAX_URL = 2083  # characters: Scrapy's URLLENGTH_LIMIT
MAX_PAGES_PER_SITE = 25_000  # CRAWLPRIO_MAX_PAGES_PER_SITE
MAX_DEPTH = {False: 15, True: 5}  # CRAWLPRIO_MAX_STATIC_DEPTH, CRAWLPRIO_MAX_DYNAMIC_DEPTH
DYNAMIC = r"(asp|aspx|cfml?|cgi|do|fcgi|jhtml|jspx?|mvc|nsf|php\d?|phtml|pl)"
# CRAWLPRIO_SKIP_EXTENSIONS, as documented; the MIME types of extensions differ by system.
_SKIPPED = """
    3gp 7z aac aif aiff apk asf avi avif bin bmp bz2 cab cdr deb djvu dmg doc docm docx dvi
    dxf eot eps epub exe flac flv gif gz heic ico img iso jar jp2 jpeg jpg lz lzma m4a m4v mid
    midi mkv mobi mov mp2 mp3 mp4 mpeg mpg msi npy npz odp ods odt oga ogg ogv opus otf
    parquet pbm pdf pgm pickle pkl png pnm ppm pps ppsx ppt pptm pptx ps psd pyc rar rpm rtf
    sqlite svg swf tar tgz tif tiff ttf wasm wav webm webp wma wmv woff woff2 xbm xls xlsb
    xlsm xlsx xpm xz zip zst
"""
SKIPPED = frozenset(_SKIPPED.split())

Href = tuple[str, bool]
"""An `href` as it stands in the page, and whether its `rel` says nofollow."""


@dataclass
class Page:
    """What the store holds about a fetched page."""

    url: str
    depth: int
    n_bytes: int
    followed: list[str]
    outside: list[str]


@dataclass
class Tally:
    """Counts by name, how often LinkExtractor agrees with the store, and the first examples."""

    counts: Counter[str] = field(default_factory=Counter)
    agreed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, example: str, agrees: bool = False) -> None:
        self.counts[name] += 1
        self.agreed[name] += agrees
        if len(self.examples[name]) < 3:
            self.examples[name].append(example)


class Recording:
    """Return the first response to each URL of a WARC file, ignoring redirects to itself."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._offsets: dict[str, int] = {}
        self.hosts: set[str] = set()
        records = ArchiveIterator(self._file)
        for record in records:
            if record.rec_type != "response" or record.http_headers is None:
                continue
            url = record.rec_headers.get_header("WARC-Target-URI").strip("<>")
            location = record.http_headers.get_header("Location")
            redirects = record.http_headers.get_statuscode().startswith("3") and location
            if redirects and without_scheme(urljoin(url, location)) == without_scheme(url):
                continue
            self._offsets.setdefault(without_scheme(url), records.get_record_offset())
            self.hosts.add(urlsplit(url).hostname or "")

    def response(self, url: str) -> tuple[dict[str, str], bytes] | None:
        """Return the headers, names in lower case, and the decoded body, or None without a body."""
        offset = self._offsets.get(without_scheme(url))
        if offset is None:
            return None
        self._file.seek(offset)
        record = next(iter(ArchiveIterator(self._file)))
        headers = {name.lower(): text for name, text in record.http_headers.headers}
        return headers, record.content_stream().read()


def read_store(path: Path) -> tuple[list[Page], Counter[str], set[str]]:
    """Return the pages fetched with status 200, the known pages per host, and some URLs.

    The URLs are those of pages that more than one page links to.
    """
    followed: dict[int, list[str]] = defaultdict(list)
    outside: dict[int, list[str]] = defaultdict(list)
    with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as db:
        rows: list[tuple[int, str, int, int]] = db.execute(
            "SELECT page, url, depth, n_bytes FROM visits JOIN pages ON pages.id = page "
            "WHERE status = 200 GROUP BY page ORDER BY page"
        ).fetchall()
        hosts = "SELECT host, count(*) FROM pages JOIN sites ON sites.id = site GROUP BY host"
        known = Counter(dict(db.execute(hosts)))
        links = "SELECT DISTINCT source, url FROM links JOIN pages ON pages.id = target"
        n_sources: Counter[str] = Counter()
        for source, url in db.execute(links):
            followed[source].append(url)
            n_sources[url] += 1
        for source, url in db.execute("SELECT DISTINCT source, url FROM outside_links"):
            outside[source].append(url)
    return (
        [
            Page(url, depth, n_bytes, followed[page], outside[page])
            for page, url, depth, n_bytes in rows
        ],
        known,
        {url for url, n in n_sources.items() if n > 1},
    )


def read_html(text: str) -> tuple[list[Href], str, bool]:
    """Return the links in libxml2's tree, the base, and whether a robots `meta` says nofollow."""
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        root = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except lxml.etree.ParserError:  # an empty document
        return [], "", False
    links = [
        (str(node.get("href")), _says_nofollow(node.get("rel")))
        for node in root.iter("a", "area")
        if node.get("href") is not None
    ]
    bases = [str(node.get("href")) for node in root.iter("base") if node.get("href") is not None]
    robots = [
        node.get("content") or ""
        for node in root.iter("meta")
        if (node.get("name") or "").strip().lower() == "robots"
    ]
    words = re.split(r"[\s,]+", " ".join(robots).lower())
    return links, bases[0] if bases else "", "nofollow" in words or "none" in words


def read_html_by_the_standard(text: str) -> tuple[list[str], str]:
    """Return each `href` in the tree that the HTML standard requires, and the base."""
    tree = LexborHTMLParser(text)
    links = [node.attributes.get("href") or "" for node in tree.css("a[href], area[href]")]
    bases = [node.attributes.get("href") or "" for node in tree.css("base[href]")]
    return links, bases[0] if bases else ""


def _says_nofollow(rel: str | None) -> bool:
    return "nofollow" in (rel or "").lower().split()


class Judge:
    """Compares pages of a store with their recorded bodies, and counts the differences."""

    def __init__(self, recording: Recording, known: Counter[str], shared: set[str]) -> None:
        self.links = Tally()
        self.reasons = Tally()
        self.n_recorded = self.n_second = 0
        self._recording = recording
        self._known = known
        self._shared = shared
        self._second = LinkExtractor(deny_extensions=[], unique=True)

    def judge(self, page: Page) -> None:
        """Compare one page."""
        self.n_recorded += len(page.followed) + len(page.outside)
        response = self._recording.response(page.url)
        if response is None or len(response[1]) != page.n_bytes:
            self.links.add(f"{UNEXPLAINED}: not the body that was recorded", page.url)
            return
        headers, body = response
        content_type = headers.get("content-type", "")
        encoding, text = html_to_unicode(content_type, body, auto_detect_fun=_utf8_or_1252)
        links, base, nofollow = read_html(text)
        rules = re.split(r"[\s,]+", headers.get("x-robots-tag", "").lower())
        nofollow |= "nofollow" in rules or "none" in rules
        if content_type and not re.match(r"\s*(text/html|application/xhtml\+xml)\b", content_type):
            for href, _ in links:
                self.links.add(f"page is {content_type.partition(';')[0]}, no HTML", href)
            links = []
        hrefs, standard_base = read_html_by_the_standard(text)
        standard_base = join(page.url, standard_base, encoding)
        standard = Spellings(join(standard_base, href, encoding) for href in hrefs)
        html = HtmlResponse(page.url, body=body, headers={"Content-Type": content_type})
        second = Spellings(urldefrag(link.url)[0] for link in self._second.extract_links(html))
        found = self._judge_found(
            page, links, join(page.url, base, encoding), encoding, standard, second
        )
        self._judge_recorded(page, found, standard, second)
        self._judge_scope(page, found, nofollow)

    def _judge_found(
        self,
        page: Page,
        links: list[Href],
        base: str,
        encoding: str,
        standard: Spellings,
        second: Spellings,
    ) -> dict[str, bool]:
        """Count what happened to the links found; return the recorded and the nofollow ones."""
        recorded = Spellings(page.followed + page.outside)
        nofollow: dict[str, bool] = {}
        seen: set[str] = set()
        for href, link_nofollow in links:
            url = join(base, href, encoding)
            found, cause = _explain(href, page.url, base, encoding, recorded)
            if not cause and not standard.find(url)[0]:
                cause = "not a link in the tree of the HTML standard"
            if cause != EXACT and found in nofollow:
                cause = f"duplicate by: {cause}"
            if found:
                nofollow[found] = nofollow.get(found, True) and link_nofollow
            if url not in seen:
                seen.add(url)
                shown = f"{url} recorded as {found}" if found else f"{href!r} on {page.url}"
                agrees = bool(second.find(url)[0]) == bool(found)
                self.links.add(cause or UNEXPLAINED, shown, agrees)
        return nofollow

    def _judge_recorded(
        self, page: Page, found: dict[str, bool], standard: Spellings, second: Spellings
    ) -> None:
        """Count the recorded links that were not found independently."""
        for url in [*page.followed, *page.outside]:
            agrees = bool(second.find(url)[0])
            self.n_second += agrees
            if url not in found:
                cause = "only a link in the tree of the HTML standard"
                cause = cause if standard.find(url)[0] else f"{UNEXPLAINED}: recorded, not found"
                self.links.add(cause, f"{url} on {page.url}", agrees)

    def _judge_scope(self, page: Page, nofollow: dict[str, bool], page_nofollow: bool) -> None:
        """Find out why links are outside, and whether any followed link should be outside."""
        for url in page.outside:
            reason = self._reason(url, page.depth + 1)
            if nofollow.get(url, False):
                reason = "rel=nofollow"
            elif page_nofollow:
                reason = "page says nofollow to all robots"
            self.reasons.add(reason or f"{UNEXPLAINED}: outside without a reason", url)
        for url in page.followed:
            host = urlsplit(url).hostname or ""
            is_nofollow = page_nofollow or nofollow.get(url, False)
            if is_nofollow and url in self._shared:
                self.reasons.add("none: nofollow, but to a page found by another way", url)
            elif is_nofollow or host not in self._recording.hosts:
                self.reasons.add(
                    f"{UNEXPLAINED}: followed against a reason", f"{url} on {page.url}"
                )

    def _reason(self, url: str, depth: int) -> str:
        """Return why a link is not followed, as far as its URL shows."""
        parts = urlsplit(url)
        name = parts.path.rpartition("/")[2].partition(";")[0]
        ending = name.rpartition(".")[2].lower() if "." in name else ""
        if parts.hostname not in self._recording.hosts:
            return "host is not in the recording"
        if "/cgi-bin/" in url:
            return "/cgi-bin/"
        if ending in SKIPPED:
            return "file that is not followed, by its extension"
        is_dynamic = "?" in url or bool(re.fullmatch(DYNAMIC, ending))
        if depth > MAX_DEPTH[is_dynamic]:
            return (
                f"{'dynamic' if is_dynamic else 'static'} page deeper than {MAX_DEPTH[is_dynamic]}"
            )
        if self._known[parts.hostname] >= MAX_PAGES_PER_SITE:
            return "site has all the pages it may have"
        return ""


def _utf8_or_1252(body: bytes) -> str:
    """Return the encoding of a page that declares none."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _explain(
    href: str, page_url: str, base: str, encoding: str, recorded: Spellings
) -> tuple[str, str]:
    """Return what was recorded for a link, if anything, and the rule or cause behind it."""
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", without_white_space(href))
    if scheme and scheme[1].lower() not in ("http", "https"):
        return "", "scheme is not http or https"
    itself = Spellings([page_url])
    for reading, rewrite in SAME_HREF.items():
        found, rule = recorded.find(join(base, rewrite(href), encoding))
        if found:
            return found, rule if reading == EXACT else f"{reading} ({rule})"
        if itself.find(join(base, rewrite(href), encoding))[0]:
            return "", "fragment only" if href.strip()[:1] == "#" else "link to the page itself"
    url = join(base, href, encoding)
    if len(url) > MAX_URL:
        return "", f"longer than {MAX_URL} characters"
    if not _has_host(url):
        return "", "no host, or none that can be"
    return "", ""


def _has_host(url: str) -> bool:
    """Return whether a URL has a valid host name and port."""
    try:
        parts = urlsplit(url)
        host, _ = unquote_to_bytes(parts.hostname or ""), parts.port
    except ValueError:
        return False
    return bool(host) and not re.search(rb"[\x00-\x20#%/:<>?@\[\\\]^|]", host)


def show(console: Console, title: str, tally: Tally, second: bool) -> None:
    """Print the counts of a tally with an example of each."""
    table = Table(title=title, title_justify="left")
    table.add_column("cause")
    table.add_column("count", justify="right")
    if second:
        table.add_column("LinkExtractor agrees", justify="right")
    table.add_column("example", overflow="fold")
    for name, count in tally.counts.most_common():
        agreed = [f"{tally.agreed[name]:,}"] if second else []
        table.add_row(name, f"{count:,}", *agreed, tally.examples[name][0][:160])
    console.print(table)


def main() -> int:
    """Compare, print, and return 1 if anything is unexplained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("warc", type=Path, help="the recording that was replayed")
    parser.add_argument("store", type=Path, help="the crawl store of the replay")
    parser.add_argument("--pages", type=int, default=200, help="pages to compare (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of pages (%(default)s)")
    options = parser.parse_args()
    pages, known, shared = read_store(options.store)
    sample = random.Random(options.seed).sample(pages, min(options.pages, len(pages)))
    judge = Judge(Recording(options.warc), known, shared)
    for page in sample:
        judge.judge(page)
    width = None if sys.stdout.isatty() else 140
    console = Console(markup=False, highlight=False, width=width)
    n = judge.n_recorded
    console.print(
        f"{len(sample)} of {len(pages):,} pages fetched with status 200, seed {options.seed}; "
        f"{n:,} links recorded: {judge.links.counts[EXACT]:,} found by hand to the letter, "
        f"{judge.n_second:,} found by LinkExtractor in any spelling."
    )
    show(console, "Links: what was found by hand, and what the store has of it", judge.links, True)
    show(console, "Links recorded as outside: why", judge.reasons, False)
    unexplained = 0
    for tally in (judge.links, judge.reasons):
        for name, count in tally.counts.items():
            if name.startswith(UNEXPLAINED):
                unexplained += count
                for example in tally.examples[name]:
                    console.print(f"{name}: {example}")
    console.print(f"{unexplained:,} unexplained.")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
