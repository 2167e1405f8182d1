"""The fenced blocks of a page of documentation, and a crawl store for them to run on."""

import re
from typing import NamedTuple

import numpy as np
from crawls import ROOT

from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.graph.synthetic import synthetic_web
from crawlprio.items import Directives, TextNotes
from crawlprio.store import Store

N_PAGES, N_FETCHED = 300, 120


class Block(NamedTuple):
    """A fenced block of a page; `line` is that of its first line of text, from 1."""

    page: str
    line: int
    language: str
    text: str


def documents():
    """Return README and its like, and the pages of docs, but for those that scripts write."""
    return [
        page
        for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        if page.parent.name not in ("reproduction", "_build")
    ]


def blocks_of(file, name):
    """Return the fenced blocks of a page, in order."""
    text = file.read_text("utf-8")
    return [
        Block(name, text[: found.start()].count("\n") + 2, found[1], found[2])
        for found in re.finditer(r"^```([a-z]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def commands_of(text):
    """Return the commands in a block of shell lines, without comments, continued lines joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"\s+# .*|^#.*", "", one).strip() for one in lines) if line]


def write_store(path, *, keeps_text=False):
    """Write the store of a breadth-first crawl of the first pages of a synthetic web.

    If it `keeps_text`, one page has a text.
    """
    web = synthetic_web(N_PAGES, 6, seed=1)
    pages = PageTable()
    for page in range(N_PAGES):
        host = f"site{web.site[page]}.example.org" if page else "example.org"
        url = f"https://{host}/" if page == 0 else f"https://{host}/{page}"
        pages.add(url, url, pages.site(host), depth=0 if page == 0 else 1)
    with Store.create(path) as store:
        store.set_meta("ordering", "breadth-first")
        store.record(Visit(NO_PAGE, np.array([0], dtype=np.int32)), pages)
        for page in range(N_FETCHED):
            row = web.out_links(page)
            extras = {}
            if page == 3:
                extras["directives"] = Directives(content_usage="train-ai=n")
                if keeps_text:
                    extras["text_notes"] = TextNotes("en", "en", "")
            visit = Visit(
                page,
                row,
                anchors=[f"page {target}" for target in row.tolist()],
                status=404 if page % 17 == 5 else 200,
                fetched_at=1_700_000_000.0 + page,
                elapsed=0.1,
                n_bytes=1_000 + page,
                title=f"Page {page}",
                text=f"The words of page {page}." if page == 3 and keeps_text else "",
                extras=extras,
            )
            items = [f'{{"title": "Page {page}"}}'] if page % 40 == 0 else []
            store.record(visit, pages, items=items, commits=page % 40 == 0)
        store.end_run(1_700_000_000.0 + N_FETCHED, pages)
