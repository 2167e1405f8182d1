"""How many repeats CRAWLPRIO_NOVELTY saves, and what it costs honest pages; run by hand.

    python benchmarks/novelty.py FOLDER OUT [--web NAME]... [--warc FILE] [--ordering NAME]...
        [--kind exact|near] [--json FILE]

FOLDER is one that `webs.py` and `archives.py` have filled: real documentation, mailing lists,
forums, blogs and wikis. OUT keeps the fingerprints of their pages. With --warc, a recorded crawl
is one more web. Each web is crawled in memory, to its end, with and without novelty: as it is, and
with repeats of kinds that sites have, built by code upon its pages (`REPEATS`). A page repeats
another if its fingerprint does, by the same rule that the crawl learns by.

For each web and kind of repeats, the output shows the share of pages that repeat others; how many
repeats were fetched until half, 90 and 99 % of the distinct pages were found, without and with
novelty; and the share of distinct pages that are fetched later than without, by more than 1 % of
all pages: all, and those that were put off. The others are later because the ordering, whose
evidence is another, chose otherwise. The table adds up the repeats of all crawls.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np
from archive_list import ARCHIVES
from archives import Tree
from numpy.typing import NDArray
from webs import LARGEST

from crawlprio.demo.recordings import WarcWeb
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds, Visit
from crawlprio.items import content_hash
from crawlprio.orderings import make_ordering
from crawlprio.orderings.base import Pages
from crawlprio.plugins.value.fingerprints import Seen, fingerprints
from crawlprio.plugins.value.novelty import Novelty
from crawlprio.simulator.graph_pages import GraphPages, Source
from crawlprio.simulator.timed import crawl_order
from crawlprio.web.html import parse_page

KINDS = {kind: fingerprints(kind) for kind in ("exact", "near")}
MARKS = (0.5, 0.9, 0.99)
MOST = 4_000
"""Most pages of a web: those that a breadth-first crawl meets first."""


class TextWeb(NamedTuple):
    """URLs, links in page order, fingerprints, and the home pages."""

    urls: list[str]
    links: list[list[int]]
    prints: list[int]
    homes: list[int]


class Recorded:
    """The visits of a `TextWeb`."""

    def __init__(self, web: TextWeb) -> None:
        self._prints = web.prints

    def visit(self, graph_page: int, row: PageIds, page: int, targets: PageIds) -> Visit:
        return Visit(page, targets, extras={"fingerprints": (self._prints[graph_page],)})


def body_reader(folder: Path, name: str) -> Callable[[str], bytes]:
    """Return what reads the body of a page of a web by its URL."""
    if name in ARCHIVES:
        archive = ARCHIVES[name]
        tree = Tree(folder / "git" / archive.repository.replace("/", "+"), archive)
        return lambda url: tree.read(url.split("/", 3)[3])
    return lambda url: (folder / f"root{urlsplit(url).path}").read_bytes()[:LARGEST]


def read_web(folder: Path, out: Path, name: str, kind: str) -> TextWeb:
    """Return a web of FOLDER, its first `MOST` pages, with the fingerprints of its pages."""
    source = Source.open(str(folder / f"{name}.npz"))
    homes = [int(line) for line in (folder / f"{name}.homes.txt").read_text().split()]
    order = crawl_order(source.graph, homes, make_ordering("breadth-first"), budget=MOST)
    place = {page: at for at, page in enumerate(order.tolist())}
    urls = [str((source.graph.urls or [])[page]) for page in place]
    links = [
        [place[target] for target in source.graph.out_links(page).tolist() if target in place]
        for page in place
    ]
    read = body_reader(folder, name)
    kept = kept_prints(out / f"{name}.npz", ((url, read(url)) for url in urls))
    return TextWeb(urls, links, kept[kind].tolist(), [place[home] for home in homes])


def kept_prints(path: Path, pages: Iterable[tuple[str, bytes]]) -> Mapping[str, NDArray[np.int64]]:
    """Return the fingerprints of pages by kind, 0 for none, from a file that keeps them."""
    if not path.exists():
        made: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for url, body in pages:
            text = parse_page(body, url, want_text=True, without_navigation=True).text
            for kind, of in KINDS.items():
                made[kind].append(of(text, content_hash(body)) if body else 0)
        np.savez(path, **{kind: np.array(prints) for kind, prints in made.items()})
    found: Mapping[str, NDArray[np.int64]] = np.load(path)
    return found


def read_warc(path: Path, out: Path, kind: str) -> TextWeb:
    """Return a recorded crawl as a web."""
    recording = WarcWeb(path)
    home = recording.page("http://www.ics.uci.edu/") or 0
    place = {home: 0}
    links, pages = [], [home]
    for page in pages:
        row = {}
        for link in parse_page(recording.response(page).body, recording.url(page)).urls:
            target = recording.page(link)
            if target is not None and target != page:
                if target not in place:
                    place[target] = len(pages)
                    pages.append(target)
                row[place[target]] = None
        links.append(list(row))
    urls = [recording.url(page) for page in pages]
    bodies = ((url, recording.response(page).body) for page, url in zip(pages, urls, strict=True))
    kept = kept_prints(out / f"{path.name}.npz", bodies)
    return TextWeb(urls, links, kept[kind].tolist(), [0])


def views(web: TextWeb, rewrite: Callable[[str], str]) -> TextWeb:
    """Return a web in which each page links to a view of it, which links back."""
    n = len(web.urls)
    return TextWeb(
        [*web.urls, *map(rewrite, web.urls)],
        [[n + page, *row] for page, row in enumerate(web.links)] + [[page] for page in range(n)],
        web.prints * 2,
        web.homes,
    )


def in_folder(folder: str) -> Callable[[str], str]:
    """Return what puts the path of a URL into a folder."""

    def rewrite(url: str) -> str:
        parts = urlsplit(url)
        return parts._replace(path=f"/{folder}{parts.path}").geturl()

    return rewrite


def print_folder(web: TextWeb) -> TextWeb:
    return views(web, in_folder("print"))


def print_parameter(web: TextWeb) -> TextWeb:
    return views(web, lambda url: f"{url}{'&' if '?' in url else '?'}view=print")


def copies(web: TextWeb, rewrites: list[Callable[[str], str]], links: str) -> TextWeb:
    """Return a web with a copy of each page for each way to rewrite URLs.

    Links within a copy stay in it, or, with `links` "any", each leads to a random copy.
    """
    n, draw = len(web.urls), random.Random(1)
    made_links, made_urls = [], []
    for at, rewrite in enumerate(rewrites):
        made_urls += map(rewrite, web.urls)
        for row in web.links:
            of = [draw.randrange(len(rewrites)) if links == "any" else at for _ in row]
            made_links.append([n * copy + target for copy, target in zip(of, row, strict=True)])
    homes = [n * at + home for home in web.homes for at in range(len(rewrites))]
    return TextWeb(made_urls, made_links, web.prints * len(rewrites), homes)


def session_parameter(web: TextWeb) -> TextWeb:
    """Each link has one of four session ids."""
    ids = [f"{random.Random(n).getrandbits(64):016x}" for n in range(4)]
    ways = [lambda url, i=i: f"{url}{'&' if '?' in url else '?'}sid={i}" for i in ids]
    found = copies(web, ways, "any")
    return found._replace(homes=found.homes[:: len(ids)])


def session_folder(web: TextWeb) -> TextWeb:
    ids = [f"{random.Random(n).getrandbits(64):016x}" for n in range(4)]
    found = copies(web, [in_folder(f"s-{i}") for i in ids], "any")
    return found._replace(homes=found.homes[:: len(ids)])


def mirror(web: TextWeb) -> TextWeb:
    """Another host has all pages; both home pages are seeds."""
    return copies(web, [str, lambda url: url.replace("http://", "http://mirror.", 1)], "own")


def mirror_folder(web: TextWeb) -> TextWeb:
    """A folder has all pages; both home pages are seeds."""
    return copies(web, [str, in_folder("old")], "own")


def facets(web: TextWeb) -> TextWeb:
    """Pages with ten links or more can be filtered by size and colour, and sorted, and resized.

    Each view links to those with one parameter more, or another value. Filters change what a page
    says; sort and view do not.
    """
    urls, prints = list(web.urls), list(web.prints)
    links = [list(row) for row in web.links]
    for page, row in enumerate(web.links):
        if len(row) < 10:
            continue
        number = {(): page}
        todo = [()]
        for chosen in todo:
            for name in ("color", "size", "sort", "view"):
                if any(given.startswith(name) for given in chosen):
                    continue
                for value in "ab":
                    more = tuple(sorted((*chosen, f"{name}={value}")))
                    if more not in number:
                        number[more] = len(urls)
                        join = "&" if "?" in urls[page] else "?"
                        urls.append(f"{urls[page]}{join}{'&'.join(more)}")
                        filters = [given for given in more if given[0] == "c" or given[1] == "i"]
                        said = random.Random(f"{prints[page]} {filters}").getrandbits(64) - 2**63
                        prints.append(said if filters else prints[page])
                        links.append([page, *row[:5]])
                        todo.append(more)
                    links[number[chosen]].append(number[more])
        if len(urls) > 5 * len(web.urls):
            break
    return TextWeb(urls, links, prints, web.homes)


def calendar(web: TextWeb) -> TextWeb:
    """Each site has a calendar of 600 months and their days, all but twelve months empty."""
    urls, prints = list(web.urls), list(web.prints)
    links = [list(row) for row in web.links]
    empty = random.Random("empty").getrandbits(64) - 2**63
    for home in web.homes[:4]:
        host = urlsplit(web.urls[home]).netloc
        first = len(urls)
        for month in range(600):
            urls.append(f"http://{host}/events/{2000 + month // 12}/{month % 12 + 1:02}/")
            links.append([first + other for other in (month - 1, month + 1) if 0 <= other < 600])
            is_empty = not 288 <= month < 300
            prints.append(empty if is_empty else random.Random(month).getrandbits(63))
        for month in range(600):
            for day in range(1, 6):
                links[first + month].append(len(urls))
                urls.append(f"{urls[first + month]}{day}")
                links.append([first + month, home])
                prints.append(empty)
        links[home].append(first + 290)
    return TextWeb(urls, links, prints, web.homes)


REPEATS: dict[str, Callable[[TextWeb], TextWeb]] = {
    "as it is": lambda web: web,
    "print folder": print_folder,
    "print parameter": print_parameter,
    "session parameter": session_parameter,
    "session folder": session_folder,
    "mirror host": mirror,
    "mirror folder": mirror_folder,
    "facets": facets,
    "calendar": calendar,
}


@dataclass(frozen=True)
class Result:
    """One web under one ordering; `wasted` by `MARKS`: repeats fetched without and with novelty."""

    web: str
    repeats: str
    ordering: str
    n_pages: int
    share: float
    wasted: list[tuple[int, int]]
    later: float
    wrong: float
    ms: float


class Noting(Novelty):
    """Notes which pages of the graph were put off when they were fetched."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.put_off: set[int] = set()

    def observe(self, visit: Visit, pages: Pages) -> list[int]:
        if visit.page >= 0 and self.is_demoted(visit.page):
            assert isinstance(pages, GraphPages)
            self.put_off.add(pages.graph_page(visit.page))
        return super().observe(visit, pages)


def measure(name: str, repeats: str, web: TextWeb, ordering: str, kind: str) -> Result:
    """Crawl a web with and without novelty."""
    graph = graph_of(web)
    seeds, recorded = web.homes, Recorded(web)
    plain = crawl_order(graph, seeds, make_ordering(ordering), recorded=recorded)
    began = process_time()
    novelty = Noting(kind)
    ours = crawl_order(graph, seeds, make_ordering(ordering), recorded=recorded, novelty=novelty)
    seconds = process_time() - began
    texts = text_numbers(web, plain, kind)
    at_plain, at_ours = found(plain, texts), found(ours, texts)
    n = len(plain)
    ends = [max(round(mark * len(at_plain)), 1) - 1 for mark in MARKS]
    plain_times, our_times = sorted(at_plain.values()), sorted(at_ours.values())
    wasted = [(plain_times[end] - end, our_times[end] - end) for end in ends]
    least = 0.01 * n
    later = {text for text, place in at_ours.items() if place - at_plain[text] > least}
    wrong = {text for text in later if int(ours[at_ours[text]]) in novelty.put_off}
    return Result(
        name,
        repeats,
        ordering,
        n,
        1 - len(at_plain) / n,
        wasted,
        len(later) / len(at_plain),
        len(wrong) / len(at_plain),
        1000 * seconds / n,
    )


def graph_of(web: TextWeb) -> LinkGraph:
    hosts: dict[str, int] = {}
    return LinkGraph.cleaned(
        np.cumsum([0, *map(len, web.links)]).astype(np.int64),
        np.array([target for row in web.links for target in row], dtype=np.int32),
        site=np.array(
            [hosts.setdefault(urlsplit(url).netloc, len(hosts)) for url in web.urls], np.int32
        ),
        urls=web.urls,
    )


def text_numbers(web: TextWeb, order: PageIds, kind: str) -> dict[int, int]:
    """Return, by page, the first page in the order of a crawl that has its text, or nearly."""
    seen = Seen(kind)
    return {
        page: seen.add(web.prints[page], page) if web.prints[page] else -page - 1
        for page in order.tolist()
    }


def found(order: PageIds, texts: dict[int, int]) -> dict[int, int]:
    """Return when each text was found."""
    at: dict[int, int] = {}
    for place, page in enumerate(order.tolist()):
        at.setdefault(texts[page], place)
    return at


def webs_of(given: argparse.Namespace) -> Iterator[tuple[str, TextWeb]]:
    for name in given.web or ():
        yield name, read_web(given.folder, given.out, name, given.kind)
    if given.warc:
        yield given.warc.name.partition(".")[0], read_warc(given.warc, given.out, given.kind)


def print_table(results: list[Result]) -> None:
    """Print means and worst cases, by kind of repeats."""
    saved_at = " | ".join(f"saved to {mark:.0%}" for mark in MARKS)
    print(f"\n| repeats | crawls | of all | {saved_at} | least at 90 % | later | most |")
    print("|---|---|---|---|---|---|---|---|---|")
    for repeats in dict.fromkeys(result.repeats for result in results):
        own = [result for result in results if result.repeats == repeats]
        wasted = np.array([result.wasted for result in own])
        usual, ours = wasted.sum(axis=0).T
        is_much = wasted[:, 1, 0] > [0.05 * result.n_pages for result in own]
        least = (1 - wasted[is_much, 1, 1] / wasted[is_much, 1, 0]).min(initial=1.0)
        wrong = [result.wrong for result in own]
        print(
            f"| {repeats} | {len(own)} | {statistics.fmean(r.share for r in own):.0%} | "
            + " | ".join(f"{share:.0%}" for share in 1 - ours / np.maximum(usual, 1))
            + f" | {least:.0%} | {statistics.fmean(wrong):.2%}, "
            f"{statistics.fmean(r.later for r in own):.2%} | "
            f"{max(wrong):.2%}, {max(r.later for r in own):.2%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--web", action="append")
    parser.add_argument("--warc", type=Path)
    parser.add_argument("--repeats", action="append", choices=REPEATS)
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--kind", default="exact", choices=["exact", "near"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name, web in webs_of(given):
        for repeats in given.repeats or REPEATS:
            made = REPEATS[repeats](web)
            for ordering in given.ordering or ("breadth-first", "opic"):
                result = measure(name, repeats, made, ordering, given.kind)
                results.append(result)
                print(
                    f"{name}, {repeats}, {ordering}: {result.n_pages:,} pages, {result.share:.0%} "
                    f"repeats; fetched {result.wasted}; later "
                    f"{result.later:.2%}, put off {result.wrong:.2%}; {result.ms:.2f} ms a page",
                    flush=True,
                )
        if given.json:
            given.json.write_text(json.dumps([asdict(result) for result in results]))
    print_table(results)


if __name__ == "__main__":
    main()
