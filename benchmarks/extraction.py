"""Link extraction against Scrapy's LinkExtractor: speed as a ratio, and why links differ.

    python benchmarks/extraction.py WARC [--pages N] [--rounds N] [--examples N]

Both read the same HTML pages of a WARC file in turn, `--rounds` times; the best round of each
counts. LinkExtractor gets a fresh HtmlResponse per page, as in a crawl. It keeps every extension
and drops duplicates, so both do the same work. Not shown: what the engine saves by receiving one
item per page instead of one Request per link.

Links are compared per page and as sets, after normalise_url and canonicalize_url; links to the page
itself do not count. Each link that only one of the two found is assigned the first cause that
explains it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import defaultdict
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from w3lib.url import canonicalize_url
from warcio.archiveiterator import ArchiveIterator

from crawlprio.web.html import parse_page
from crawlprio.web.urls import MAX_URL_LENGTH, normalise_url


class Page(NamedTuple):
    """One recorded response."""

    url: str
    content_type: str
    body: bytes


def read_pages(path: str, n_pages: int) -> list[Page]:
    """Return up to `n_pages` HTML pages, spread evenly over the file."""
    pages = []
    with open(path, "rb") as stream:
        for record in ArchiveIterator(stream):
            if record.rec_type != "response":
                continue
            content_type = record.http_headers.get_header("Content-Type") or ""
            if "html" in content_type:
                url = record.rec_headers.get_header("WARC-Target-URI")
                pages.append(Page(url, content_type, record.content_stream().read()))
    stride = max(1, len(pages) // n_pages)
    return pages[::stride][:n_pages]


def extract_ours(pages: list[Page]) -> list[list[str]]:
    """Return the links of each page, by parse_page."""
    return [parse_page(page.body, page.url, content_type=page.content_type).urls for page in pages]


def extract_theirs(pages: list[Page]) -> list[list[str]]:
    """Return the links of each page, by LinkExtractor."""
    extractor = LinkExtractor(deny_extensions=[])
    links = []
    for page in pages:
        response = HtmlResponse(
            page.url, body=page.body, headers={"Content-Type": page.content_type}
        )
        links.append([link.url for link in extractor.extract_links(response)])
    return links


def canonical(url: str) -> str:
    """Return a URL in the form used for comparison, or unchanged if it has no canonical form."""
    try:
        return canonicalize_url(normalise_url(url) or url)
    except ValueError:
        return url


def squash(url: str) -> bytes:
    """Return a URL with all differences in quoting removed."""
    return re.sub(rb"[\\/]+", b"/", unquote_to_bytes(url.encode("utf-8", "replace")).lower())


def tail(url: str) -> bytes:
    """Return the last part of a URL, as it probably appears in the page."""
    return re.split(r"[/?=]", unquote(url).rstrip("/"))[-1].encode("utf-8", "replace")


def has_odd_scheme(url: str, page: Page) -> bool:
    """Return whether the page spells the URL as `http:host`, `http:/host` or `http:///host`."""
    odd = rb"(?i)https?:(?:/?|///+)(?![/\s])[^\"'>]*" + re.escape(tail(url))
    return re.search(odd, page.body) is not None


def is_after_end(url: str, page: Page) -> bool:
    """Return whether the link disappears when the page is cut at its first `</html>`."""
    end = page.body.lower().find(b"</html")
    cut = page._replace(body=page.body[:end])
    return end >= 0 and url not in {canonical(link) for link in extract_ours([cut])[0]}


def likeness(url: str, others: set[str]) -> str:
    """Return how the URL resembles one of the others, or an empty text."""
    alike = [other for other in others if squash(other) == squash(url)]
    if not alike:
        return ""
    if any("//" in urlsplit(other).path for other in (url, *alike)):
        return EMPTY_SEGMENTS
    return "the same but for quoting, case or backslashes"


ODD_SCHEME = "http: without its two slashes, read as browsers do"
EMPTY_SEGMENTS = "empty path segments, which urljoin drops and browsers keep"


def cause_theirs_alone(url: str, page: Page, ours: set[str]) -> str:
    """Return why only LinkExtractor has a link."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return f"scheme {parts.scheme}:, which is not crawled"
    if len(url) > MAX_URL_LENGTH:
        return f"URL longer than {MAX_URL_LENGTH} characters"
    normal = normalise_url(url)
    if normal is None:
        return "host name that the URL standard does not allow"
    if alike := likeness(normal, ours):
        return alike
    if has_odd_scheme(url, page):
        return ODD_SCHEME
    name = parts.path.rpartition("/")[2].encode()
    if name and name in b"".join(re.findall(rb"<!--.*?(?:-->|$)", page.body, re.DOTALL)):
        return "inside what HTML5 reads as a comment, libxml2 as markup"
    return "other"


def cause_ours_alone(url: str, page: Page, theirs: set[str]) -> str:
    """Return why only parse_page has a link."""
    if alike := likeness(url, theirs):
        return alike
    if has_odd_scheme(url, page):
        return ODD_SCHEME
    if is_after_end(url, page):
        return "after </html>, where LinkExtractor does not look"
    return "other"


def report_differences(
    pages: list[Page], ours: list[list[str]], theirs: list[list[str]], n_examples: int
) -> None:
    """Print how many links agree, and the others by cause."""
    causes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    n_theirs = n_common = 0
    for page, our_links, their_links in zip(pages, ours, theirs, strict=True):
        self_link = canonical(page.url)
        our_set = {canonical(url) for url in our_links} - {self_link}
        their_set = {canonical(url) for url in their_links} - {self_link}
        crawlable = {url for url in their_set if url.startswith(("http://", "https://"))}
        n_theirs += len(crawlable)
        n_common += len(crawlable & our_set)
        for url in sorted(their_set - our_set):
            causes["LinkExtractor alone: " + cause_theirs_alone(url, page, our_set)].append(
                (page.url, url)
            )
        for url in sorted(our_set - their_set):
            causes["parse_page alone: " + cause_ours_alone(url, page, their_set)].append(
                (page.url, url)
            )
    share = 100 * n_common / max(1, n_theirs)
    print(f"http(s) links of LinkExtractor: {n_theirs}; found by parse_page: {n_common}", end=" ")
    print(f"({share:.3f} %)")
    for cause, links in sorted(causes.items(), key=lambda entry: -len(entry[1])):
        print(f"{len(links):7d}  {cause}")
        for source, url in links[:n_examples]:
            print(f"           {url[:100]!r} on {source[:100]}")


def main() -> None:
    """Run both in turn and print ratio and differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("warc")
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=2)
    options = parser.parse_args()
    pages = read_pages(options.warc, options.pages)
    if not pages:
        sys.exit(f"{options.warc} holds no HTML responses")
    print(f"{len(pages)} pages, {sum(len(page.body) for page in pages)} bytes")
    best = {"parse_page": float("inf"), "LinkExtractor": float("inf")}
    for _ in range(options.rounds):
        start = time.perf_counter()
        ours = extract_ours(pages)
        middle = time.perf_counter()
        theirs = extract_theirs(pages)
        end = time.perf_counter()
        best["parse_page"] = min(best["parse_page"], middle - start)
        best["LinkExtractor"] = min(best["LinkExtractor"], end - middle)
    for name, seconds in best.items():
        print(f"{name:14} {1e6 * seconds / len(pages):8.1f} µs a page")
    print(f"ratio          {best['LinkExtractor'] / best['parse_page']:8.2f}")
    report_differences(pages, ours, theirs, options.examples)


if __name__ == "__main__":
    main()
