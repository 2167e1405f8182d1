"""Recorded webs from WARC files and crawl stores, served as recorded.

Only an index is kept in memory.
"""

from __future__ import annotations

import logging
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import DecompressingBufferedReader
from warcio.utils import BUFF_SIZE

from crawlprio.demo import Answer, html_answer
from crawlprio.errors import StoreError
from crawlprio.graph.linkgraph import LinkGraph, sites_of
from crawlprio.graph.pages import Visit
from crawlprio.safe_files import open_file
from crawlprio.show.tables import tracked
from crawlprio.store import Store
from crawlprio.store.files import open_database, store_error
from crawlprio.store.visit_rows import VISIT_COLUMNS, row_visit
from crawlprio.web.content import computed_type
from crawlprio.web.robots_txt import forbids
from crawlprio.web.urls import canonical, host_of, location_url, normalise_url

logger = logging.getLogger("crawlprio")

_SCHEME_ALONE = re.compile(rb"(?i)https?:(?![/\\]{2})")
"""Matches links such as `http:page`, which are relative on http pages but name a host on https."""

_OF_THE_CONNECTION = {
    *("connection", "content-encoding", "content-length", "keep-alive", "proxy-authenticate"),
    *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
}

MAX_BODY = 2**26
"""Maximum number of bytes served of a recorded body, unpacked."""

MAX_LINE = 2**16
"""Maximum size of a header line of a record in bytes."""

MAX_HEADERS = 2**20
"""Maximum total size of the headers of a record in bytes."""


def page_key(url: str) -> str | None:
    """Return the key of a page in a recording: its canonical URL without scheme and default port.

    URLs that Scrapy treats as one page have the same key. None if it is not an http or https URL.
    """
    normal = normalise_url(url)
    if normal is None:
        return None
    host, slash, path = canonical(normal).partition("://")[2].partition("/")
    return host.removesuffix(":80").removesuffix(":443") + slash + path


class _Pages:
    """The pages of a recording in the order recorded, looked up by the `page_key` of a URL."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._urls: list[str] = []

    def __len__(self) -> int:
        return len(self._urls)

    @property
    def hosts(self) -> list[str]:
        """Host names of the pages, in the order recorded."""
        return list(dict.fromkeys(map(host_of, self._urls)))

    def url(self, page: int) -> str:
        """Return the URL of a page, as recorded."""
        return self._urls[page]

    def urls(self) -> list[str]:
        """Return the URLs of all pages."""
        return list(self._urls)

    def page(self, url: str) -> int | None:
        """Return the page at `url`, over http or https, or None."""
        key = page_key(url)
        return None if key is None else self._ids.get(key)

    def graph(self) -> LinkGraph:
        """Return the links between all pages, as recorded by a crawl that fetches them all.

        Links are distinct, in page order, without self-links; nofollow links, and links to pages
        that the web does not have, are left out. A redirect has one link, its target. Pages are the
        same over http and https. Sites are numbered in order of their first page. A terminal shows
        a progress bar.
        """
        indptr = np.zeros(len(self) + 1, dtype=np.int64)
        flat = array("i")
        for page in tracked(range(len(self)), "reading the whole graph", len(self)):
            targets = dict.fromkeys(map(self.page, self._links_of(page)))
            flat.extend(target for target in targets if target not in (page, None))
            indptr[page + 1] = len(flat)
        sites, _ = sites_of(self._urls)
        assert sites is not None
        return LinkGraph(indptr, np.array(flat, dtype=np.int32), sites, self.urls())

    def _links_of(self, page: int) -> Iterable[str]:
        raise NotImplementedError

    def _add(self, url: str) -> bool:
        """Add a page unless one with this URL exists; return whether it was added."""
        normal, key = normalise_url(url), page_key(url)
        if normal is None or key is None or key in self._ids:
            return False
        self._ids[key] = len(self._urls)
        self._urls.append(normal)
        return True


class _Place(NamedTuple):
    """Where a record is: number of its file, and offset."""

    file: int
    offset: int


class WarcWeb(_Pages):
    """A web that serves the responses of WARC files for their URLs, over both http and https.

    `path` is a WARC file, plain or compressed record by record (`.warc.gz`), or a folder of such
    files, which are read in order of their names. A page is the first response for its URL that
    does not redirect to itself (redirects from http to https do, since both are the same page
    here). A revisit record counts as a response if the one that it repeats is recorded before it.
    All other URLs get a 404, and a file without a response is a StoreError.

    A truncated or damaged file is served up to the first bad record, with a warning in the log; so
    is one with a header line of more than `MAX_LINE` bytes, or headers of more than `MAX_HEADERS`.
    The first `MAX_BODY` bytes of each unpacked body are served. Indexing reads the file once, about
    20,000 records per second; an answer reads one record.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        self._places = array("q")
        self._bodies: dict[int, _Place] = {}
        self._originals: dict[str, _Place] = {}
        self._files: list[BinaryIO] = []
        try:
            for file in _warc_files(self.path):
                self._open(file)
                self._index(file)
            if not len(self):
                raise StoreError(
                    f"{path} has no response over http or https; give a recording of web pages."
                )
        except BaseException:
            self.close()
            raise
        self._originals.clear()

    def _open(self, file: Path) -> None:
        try:
            self._files.append(open_file(file, "rb", follow=True))
        except OSError as error:
            raise StoreError(f"{file} cannot be read: {error.strerror}; check the name.") from None

    def close(self) -> None:
        """Close the files; `answer` must not be called afterwards."""
        for file in self._files:
            file.close()

    @property
    def seeds(self) -> list[str]:
        """The home page of the host with the most pages, or its first page if that is missing."""
        (host, _), *_ = Counter(map(host_of, self._urls)).most_common(1)
        home = self.page(f"http://{host}/")
        first = next(url for url in self._urls if host_of(url) == host)
        return [first if home is None else self._urls[home]]

    def answer(self, url: str) -> Answer:
        """Return the recorded response, decoded and without connection headers."""
        page = self.page(url)
        return _no_page(404) if page is None else self.response(page)

    def response(self, page: int) -> Answer:
        """Return the recorded response of a page. Cost: about 0.2 ms."""
        record = self._record(_Place(self._places[2 * page], self._places[2 * page + 1]))
        headers = {
            name: text
            for name, text in record.http_headers.headers
            if name.lower() not in _OF_THE_CONNECTION
        }
        status = _status(record)
        if page in self._bodies:
            record = self._record(self._bodies[page])
        return Answer(status, headers, _read(record.content_stream()))

    def _links_of(self, page: int) -> list[str]:
        """Parse a page: 7,000 per second."""
        from crawlprio.web.html import parse_page

        answer, url = self.response(page), self.url(page)
        headers = {name.lower(): text for name, text in answer.headers.items()}
        if 300 <= answer.status < 400:
            target = location_url(headers.get("location", "").encode(), url)
            return [] if target is None else [target]
        kind = computed_type(
            [headers.get("content-type", "text/html").encode("latin-1", "replace")],
            [headers.get("x-content-type-options", "").encode("latin-1", "replace")],
            answer.body,
        )
        says_nofollow = forbids("nofollow", [headers.get("x-robots-tag", "")])
        if not (kind.is_html and 200 <= answer.status < 300) or says_nofollow:
            return []
        addresses = [url]
        if _SCHEME_ALONE.search(answer.body):
            addresses = [f"{scheme}://{url.partition('://')[2]}" for scheme in ("http", "https")]
        parsed = [parse_page(answer.body, each, content_type=kind.header) for each in addresses]
        return [
            url
            for each in parsed
            for url, nofollow in zip(each.urls, each.nofollows, strict=True)
            if not (each.nofollow or nofollow)
        ]

    def _record(self, place: _Place) -> Any:
        file = self._files[place.file]
        file.seek(place.offset)
        return next(iter(_records(file)))

    def _index(self, path: Path) -> None:
        """Index the place of each page's record in the last file, up to the first bad record."""
        n_records = end = 0
        records = _records(self._files[-1])
        n_before = len(self)
        try:
            for record in records:
                digest, original = self._body(record)
                taken = self._take(record, original)
                offset = records.get_record_offset()
                end = offset + records.get_record_length()
                length = record.rec_headers.get_header("Content-Length")
                if length is None or getattr(record.raw_stream, "limit", 0) > 0:
                    raise EOFError("the record is incomplete")
                n_records += 1
                place = _Place(len(self._files) - 1, offset)
                if taken:
                    self._places.extend(place)
                    if original is not None:
                        self._bodies[len(self) - 1] = original
                if digest and original is None:
                    self._originals.setdefault(digest, place)
            if end < path.stat().st_size:
                raise EOFError("no complete record follows")
        except Exception as error:  # warcio passes on any exception of its parsers
            if n_records == 0 and path == self.path:
                raise StoreError(
                    f"{path} is not a WARC file, or is damaged in its first record; "
                    "give a .warc or .warc.gz file."
                ) from error
            # A page may have been added by the record that turned out to be damaged.
            for url in self._urls[len(self._places) // 2 :]:
                del self._ids[page_key(url) or ""]
            del self._urls[len(self._places) // 2 :]
            logger.warning(
                "%s is damaged at record %d (%s); the %d pages before it are served.",
                path,
                n_records + 1,
                " ".join(str(error).split())[:80],
                len(self) - n_before,
            )

    def _body(self, record: Any) -> tuple[str, _Place | None]:
        """Return the digest of a body, and its place if the record is a revisit of a known one."""
        if record.rec_type not in ("response", "revisit"):
            return "", None
        digest = record.rec_headers.get_header("WARC-Payload-Digest") or ""
        return digest, self._originals.get(digest) if record.rec_type == "revisit" else None

    def _take(self, record: Any, original: _Place | None) -> bool:
        """Add a record as a page if it is a suitable response; return whether it was added."""
        if record.http_headers is None or not (record.rec_type == "response" or original):
            return False
        url = (record.rec_headers.get_header("WARC-Target-URI") or "").strip("<>")
        status = _status(record)
        if not 100 <= status <= 599:
            return False
        location = record.http_headers.get_header("Location")
        target = location_url(location.encode(), url) if location else None
        if 300 <= status < 400 and target and page_key(target) == page_key(url):
            return False
        return self._add(url)


class StoreWeb(_Pages):
    """A web that serves the pages of a crawl as far as its store recorded them.

    HTML is generated from title, text, links and anchor texts; links that the crawl did not follow
    are marked `nofollow`. A redirect becomes a 302, a failed page returns its status or 404, and
    all other URLs get a 404. If a page was fetched more than once, its last visit counts. The store
    of a running crawl is served in its state on opening; one without a visit is a StoreError.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        with Store.open(self.path, readonly=True) as store:
            table = store.load_pages()
            self._seeds = table.urls(store.seeds())
        self._addresses = table.urls(range(len(table)))
        self._visits = array("q")
        self._db = open_database(self.path, readonly=True)
        last = "SELECT page, max(seq) FROM visits WHERE page >= 0 GROUP BY page ORDER BY min(seq)"
        for page, seq in self._db.execute(last):
            if page < len(self._addresses) and self._add(self._addresses[page]):
                self._visits.append(seq)
        if not len(self):
            self._db.close()
            raise StoreError(f"{path} has no visit of a page; there is nothing to serve.")

    def close(self) -> None:
        """Close the store; `answer` must not be called afterwards."""
        self._db.close()

    @property
    def seeds(self) -> list[str]:
        """The seeds of the crawl, or else the first page that it fetched."""
        return self._seeds or [self._urls[0]]

    def answer(self, url: str) -> Answer:
        """Return the page as recorded in the store. Cost: one row of the store."""
        page = self.page(url)
        if page is None:
            return _no_page(404)
        visit = self.visit(page)
        links = self.links(visit)
        if 300 <= visit.status < 400 and links:
            return Answer(302, {"Location": links[0]})
        if visit.status != 200:
            return _no_page(visit.status if 400 <= visit.status <= 599 else 404)
        return html_answer(_html_of(visit, links))

    def _links_of(self, page: int) -> list[str]:
        visit = self.visit(page)
        return self.links(visit) if visit.status == 200 or 300 <= visit.status < 400 else []

    def visit(self, page: int) -> Visit:
        """Return the last visit of a page."""
        query = f"SELECT {VISIT_COLUMNS} FROM visits WHERE seq = ?"
        row = self._db.execute(query, (self._visits[page],)).fetchone()
        return row_visit(row, len(self._addresses))

    def links(self, visit: Visit) -> list[str]:
        """Return the URLs of the links that a visit followed, in page order."""
        return [self._addresses[target] for target in visit.targets.tolist()]


def open_web(path: str | Path) -> WarcWeb | StoreWeb:
    """Return the web recorded in a file, whose type is recognised by its content, not its name.

    A folder is one of WARC files. Anything else is a StoreError.
    """
    if os.path.isdir(path):
        return WarcWeb(path)
    try:
        with Path(path).open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise store_error(Path(path), error) from None
    if head.startswith(b"SQLite format 3"):
        return StoreWeb(path)
    if head.startswith((b"WARC/", b"\x1f\x8b")):
        return WarcWeb(path)
    raise StoreError(f"{path} is neither a WARC file nor a crawl store; give one of these.")


_WARCS = ".warc", ".warc.gz"


def _warc_files(path: Path) -> list[Path]:
    """Return the WARC files of a folder, or a file itself."""
    if not path.is_dir():
        return [path]
    try:
        found = [file for file in path.iterdir() if file.name.lower().endswith(_WARCS)]
    except OSError as error:
        raise store_error(path, error) from None
    if not found:
        raise StoreError(f"{path} has no .warc or .warc.gz file; give the folder of an archive.")
    return sorted(found)


class _BoundedReader(DecompressingBufferedReader):
    """Unpacks a WARC file, with limits on header lines and on all headers of a record."""

    n_read = 0

    def readline(self, length: int | None = None) -> bytes:
        """Return a line; warcio calls this to read headers."""
        line: bytes = super().readline(length or MAX_LINE)
        if not line.strip():
            self.n_read = 0
        self.n_read += len(line)
        if self.n_read > MAX_HEADERS or (len(line) >= MAX_LINE and not line.endswith(b"\n")):
            raise ValueError("a header is too long")
        return line


def _records(file: BinaryIO) -> ArchiveIterator:
    """Return the records of a WARC file from its current position."""
    records = ArchiveIterator(file)
    records.reader = _BoundedReader(file, block_size=BUFF_SIZE)
    return records


def _read(stream: Any) -> bytes:
    """Return the first `MAX_BODY` bytes of a body."""
    parts = []
    room = MAX_BODY
    while room > 0 and (part := stream.read(min(room, 2**20))):
        parts.append(part)
        room -= len(part)
    return b"".join(parts)


def _status(record: Any) -> int:
    """Return the HTTP status of a record, or 0 if it has none."""
    code = record.http_headers.get_statuscode()
    return int(code) if code.isascii() and code.isdigit() else 0


def _no_page(status: int) -> Answer:
    text = "<!DOCTYPE html>\n<title>No page</title>\n<p>The recording has no page here.</p>\n"
    return html_answer(text, status=status)


def _html_of(visit: Visit, links: Sequence[str]) -> str:
    """Return the HTML of a visited page: title, text, links followed, links not followed."""
    anchors = visit.anchors or [""] * len(links)
    items = [_anchor(url, anchor) for url, anchor in zip(links, anchors, strict=True)]
    items += [_anchor(url, anchor, ' rel="nofollow"') for url, anchor in visit.outside]
    title = escape(visit.title)
    return (
        f'<!DOCTYPE html>\n<html>\n<head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>\n<p>{escape(visit.text)}</p>\n<ul>\n{chr(10).join(items)}\n</ul>\n"
        "</body>\n</html>\n"
    )


def _anchor(url: str, text: str, attributes: str = "") -> str:
    return f'<li><a href="{escape(url)}"{attributes}>{escape(text)}</a></li>'
