"""The webs whose pages are kept with their texts, and the topics of crawls on them.

Only words of topics and queries leave this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urljoin

import numpy as np
from paper_crawls import Mask
from sources import TEXTS, TOPICS, UCI
from webs import STARTS, Web

from crawlprio.demo.recordings import WarcWeb
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.graph.topic import Topic
from crawlprio.store import Store
from crawlprio.web.html import parse_page
from crawlprio.web.urls import host_of, normalise_url

MISSING = "admission"
"""The paper's other topic, which is that of one page of uci-ics; `student` replaces it."""
QUERY = ("computer", "research", "course", "student")
"""Query words of different frequency on uci-ics, for the similarity that a crawl estimates."""
HOME = "http://www.ics.uci.edu/"
SHORT_BYTES = 16 * 1024
ALL, SHORT = "all pages", "pages of at most 16 kB"


@dataclass(frozen=True, eq=False)
class TopicWeb:
    """A web with texts, and the topics of crawls on it.

    `web`: what is crawled. `path`: a crawl store of its pages; of their texts, it has the words of
    the topics. `words`: the topics. `kinds`: which pages may be hot, by name: all, and of a
    recording that holds longer pages only if they have a high PageRank, the short ones.
    """

    web: Web
    path: Path
    words: Sequence[str]
    kinds: dict[str, Mask]

    @cached_property
    def seeds(self) -> list[list[int]]:
        """Single pages, and all home pages where the web has several sites."""
        homes = [self.web.homes] if len(self.web.homes) > 1 else []
        return [*self.web.starts(STARTS), *homes]


def topic_webs(shared: Path, webs: Path, folder: Path) -> Iterator[TopicWeb]:
    """Yield the webs whose texts are there, and say which are not; stores go into the folder."""
    for name, words in TOPICS.items():
        kept, path = webs / TEXTS / f"{name}.sqlite", folder / f"{name}.sqlite"
        warc = shared / f"{UCI}.warc.gz"
        if not (warc if name == UCI else kept).exists():
            remedy = "bring the recording" if name == UCI else "run make webs"
            print(f"cho_topics: {name} has no texts and is left out; {remedy}.", flush=True)
            continue
        if name == UCI:
            short = _record(warc, path, {*words, MISSING, *QUERY})
        else:
            _reduce(kept, path, set(words))
        with Store.open(path, readonly=True) as store:
            graph, homes = store.link_graph(), store.seeds()
        everything: Mask = np.ones(graph.n_pages, dtype=np.bool_)
        if name == UCI:
            yield TopicWeb(Web(name, graph, homes[0]), path, words, {ALL: everything, SHORT: short})
        else:
            web = Web(name, graph, homes[0], known_homes=tuple(homes))
            yield TopicWeb(web, path, words, {ALL: everything})


def _reduce(kept: Path, path: Path, wanted: set[str]) -> None:
    """Write a copy of a store in which the texts have only the wanted words."""
    words = Topic(sorted(wanted))
    with Store.open(kept, readonly=True) as source, Store.create(path) as store:
        table = source.load_pages()
        store.record_pages(table, source.seeds())
        for visit in source.visits():
            text = " ".join(word for word in words.words(visit.text) if word in wanted)
            store.record(visit._replace(text=text), table, commits=False)
        store.commit()


def _record(warc: Path, path: Path, wanted: set[str]) -> Mask:
    """Write a crawl store of all pages of a WARC file, keeping only wanted words of the texts.

    Returns which pages have at most 16 kB.
    """
    web = WarcWeb(warc)
    words = Topic(sorted(wanted))
    table = PageTable()
    for url in web.urls():
        table.add(url, url, table.site(host_of(url)))
    short = np.ones(len(table), dtype=np.bool_)
    with Store.create(path) as store:
        seed = web.page(HOME)
        assert seed is not None
        store.record(Visit(NO_PAGE, np.array([seed], dtype=np.int32)), table)
        for page in range(len(table)):
            answer = web.response(page)
            short[page] = len(answer.body) <= SHORT_BYTES
            headers = {name.lower(): value for name, value in answer.headers.items()}
            url = web.url(page)
            title, text = "", ""
            links: list[tuple[str | None, str]] = []
            if 300 <= answer.status < 400:
                links = [(normalise_url(urljoin(url, headers.get("location", ""))), "")]
            elif answer.status == 200:
                content_type = headers.get("content-type", "text/html")
                parsed = parse_page(answer.body, url, content_type=content_type, want_text=True)
                title = parsed.title
                text = " ".join(word for word in words.words(parsed.text) if word in wanted)
                links = [(link.url, link.anchor) for link in parsed.links if not link.nofollow]
            anchors: dict[int, str] = {}
            for link, anchor in links:
                target = None if link is None else web.page(link)
                if target is not None and target != page:
                    anchors.setdefault(target, anchor)
            targets = np.fromiter(anchors, dtype=np.int32, count=len(anchors))
            visit = Visit(page, targets, list(anchors.values()), answer.status, title, text)
            store.record(visit, table)
    web.close()
    return short
