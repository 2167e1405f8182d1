"""Example pages of a value model: from a folder, a CSV file, a crawl store, or URLs in a store."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from crawlprio.errors import ConfigError
from crawlprio.plugins.value.model import Page, page_of

_HTML = (".html", ".htm", ".xhtml")


def read_examples(path: Path, store: Path | None = None) -> list[Page]:
    """Return the example pages at a path, those without any word left out.

    It may be a folder of `.html` and `.txt` files, also in its subfolders, in the order of their
    names; a `.csv` file with a column `text`, and perhaps `title` and `url`; a crawl store, whose
    pages with text all count; or, with `store`, a text file of URLs, one per line, whose pages and
    texts that crawl store has. Raise ConfigError if it has no page with a word.
    """
    if path.is_dir():
        pages = _from_folder(path)
    elif path.suffix == ".csv":
        pages = _from_csv(path)
    elif store is not None:
        wanted = dict.fromkeys(_lines(path))
        found = {page.url: page for page in _from_store(store) if page.url in wanted}
        pages = iter([found[url] for url in wanted if url in found])
    elif path.suffix == ".sqlite":
        pages = _from_store(path)
    else:
        raise ConfigError(
            f"{path}: give a folder of .html and .txt files, a .csv file, a crawl store, or a file "
            "of URLs and --store STORE."
        )
    kept = [page for page in pages if page.text.strip() or page.title.strip()]
    if not kept:
        raise ConfigError(f"{path} has no page with text; give at least one.")
    return kept


def _from_folder(folder: Path) -> Iterator[Page]:
    from crawlprio.web.html import parse_page

    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in _HTML:
            url = f"file://{file.name}"
            parsed = parse_page(_read(file), url, want_text=True, without_navigation=True)
            yield page_of(url, parsed.title, parsed.text)
        elif file.suffix.lower() == ".txt":
            yield page_of(f"file://{file.name}", "", _read(file).decode("utf-8", "replace"))


def _from_csv(path: Path) -> Iterator[Page]:
    csv.field_size_limit(2**27)
    reader = csv.DictReader(_read(path).decode("utf-8-sig", "replace").splitlines(keepends=True))
    if "text" not in (reader.fieldnames or ()):
        raise ConfigError(f"{path}: the first line must name a column text; it does not.")
    try:
        for row in reader:
            yield page_of(row.get("url") or "", row.get("title") or "", row["text"] or "")
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not valid CSV ({error}).") from None


def _from_store(path: Path) -> Iterator[Page]:
    from crawlprio.store import Store

    with Store.open(path, readonly=True) as store:
        urls = list(store.page_urls())
        for visit in store.visits(anchors=False):
            if visit.page >= 0 and visit.text:
                yield page_of(urls[visit.page], visit.title, visit.text)


def _lines(path: Path) -> list[str]:
    text = _read(path).decode("utf-8-sig", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}).") from None
