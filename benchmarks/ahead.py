"""What is gathered from 1 to 40 % of the pages, and under attack, on webs set aside; run by hand.

    python benchmarks/ahead.py FOLDER [--ordering NAME[:OPTION=VALUE,...]]... [--attacks]

Builds the webs in `JUDGE` in FOLDER, outside the repository, unless they are there: public git
histories and Debian packages, some 700 MB, and webs generated along the hosts of the .uk web of
1996 (`uk1996-hosts.npz` in FOLDER, if it is there). Each ordering crawls each web, by order alone,
from all home pages, the first one, and three drawn at random; each web counts once. `--attacks`
adds farms and traps instead, and prints averages less those of breadth-first.

The webs, starts and attacks were written down before any ordering was run on them, and have judged
once: nothing may be tuned on them. Two things were fixed after that, before any crawl: packages
without HTML were left out, and which webs are attacked. `EARLIER` had judged earlier versions of
`sibling-sampling`; the other webs are new.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import archives
import numpy as np
import webs
from archive_list import Archive
from numpy.typing import NDArray
from quality import SHARES, parse_ordering

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.graph.synthetic import synthetic_web
from crawlprio.measure.crawl_order import average_cumulative_pagerank, best_order, reachable
from crawlprio.orderings import make_ordering
from crawlprio.ranking.pagerank import pagerank
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.timed import crawl_order

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

import attacks

NEW = {
    "openocd-list": Archive(
        "mailing list",
        "BackupTheBerlios/openocd-development-maillist",
        "ee3d592d94f49cf0afa97bbbd51fa22ebd02eeed",
    ),
    "mozilla-archive": Archive(
        "organisation",
        "mozilla-it/old-website-archive.mozilla.org",
        "d220d7b26faa23752d5b5deb53f1d0cb000144df",
    ),
    "art-institute": Archive(
        "museum",
        "art-institute-of-chicago/static-archive",
        "42e48f843b7eeb4e3bb175487121fffd817b805a",
        prefixes=("archive.artic.edu", "www.artic.edu"),
        folders_are_sites=True,
    ),
}
"""Archives by name; the home pages of `art-institute` are the `index.html` of each folder."""

PACKAGES = {
    "aside-java": ("groovy-doc", "tomcat10-docs", "libreoffice-dev-doc"),
    "aside-tools": (
        *("kicad-doc-en", "fricas-doc", "asymptote-doc", "pike8.0-doc", "swig4.0-doc"),
        *("puppetdb-doc", "python-xarray-doc", "python-mpmath-doc", "ntpsec-doc"),
        *("docbook-xsl-doc-html", "lua5.2-doc", "bash-doc"),
    ),
}
"""Debian packages of a web, each a site."""

EARLIER = ("imagej-lists", "openenergy-forum", "asm-forum", "luciddb-wiki", "your-sinclair")
HOSTS = {"hosts-77": (77, 900, 0.08), "hosts-78": (78, 2500, 0.2)}
"""Generated webs of 40,000 pages: seed, sites, and share of links between them."""

JUDGE = (*NEW, *PACKAGES, *EARLIER, *HOSTS)
ATTACKED = ("aside-tools", "mozilla-archive", "art-institute", "luciddb-wiki", "your-sinclair")
ATTACKS = ("rings", "wheels", "doorways", "domains", "calendar", "mirrors", "expired", "farm")
ENTRIES = ((0.3, 10), (0.3, 0.1), (0.3, 0.3), (0.1, 0.3))
"""Added pages as a share of all, and pages that link to them: a number, or a share of the web."""

STARTS, DRAW = 3, 2024
USUAL = "breadth-first"
DEFAULT = (USUAL, "opic", "rankmass", "scout", "sibling-sampling")

Floats = NDArray[np.float64]


def build(folder: Path, name: str) -> None:
    """Write the graph of a web, unless it is there."""
    if (folder / f"{name}.npz").exists():
        return
    if name in HOSTS:
        seed, n_sites, between = HOSTS[name]
        hosts = Source.open(str(folder / "uk1996-hosts.npz")).graph
        graph = synthetic_web(
            40_000,
            n_sites,
            links_per_page=9,
            share_between_sites=between,
            hosts=hosts,
            max_pages_per_site=4000,
            seed=seed,
        )
        write_npz(graph, folder / f"{name}.npz")
        home = np.flatnonzero(graph.site == np.bincount(graph.site).argmax())[0]
        (folder / f"{name}.homes.txt").write_text(f"{home}\n")
    elif name in PACKAGES:
        webs.SITES.update(dict.fromkeys(PACKAGES[name], ()))
        webs.WEBS[name] = PACKAGES[name]
        webs.build(folder, [name])
    else:
        archives.ARCHIVES.update(NEW)
        if name == "art-institute":
            archive = NEW[name]
            tree = archives.Tree(folder / "git" / archive.repository.replace("/", "+"), archive)
            tree.close()
            homes = sorted(
                path
                for path in tree.blobs
                if path.count("/") == 1 and path.lower().endswith("/index.html")
            )
            archives.ARCHIVES[name] = archive._replace(homes=tuple(homes))
        archives.build(folder, [name])


def starts_of(graph: LinkGraph, homes: list[int]) -> list[list[int]]:
    """Return all home pages, if there are several, the first, and pages that reach half as much."""
    least = max(int(reachable(graph, homes[:1]).sum()), 0.3 * graph.n_pages) / 2
    single = [homes[0]]
    for page in np.random.default_rng(DRAW).permutation(graph.n_pages)[:400].tolist():
        if len(single) > STARTS:
            break
        if page not in single and reachable(graph, [page]).sum() >= least:
            single.append(page)
    return [homes] * (len(homes) > 1) + [[page] for page in single]


def opened(folder: Path, name: str) -> tuple[LinkGraph, list[list[int]], Floats]:
    """Return a web, its starts and its PageRank."""
    build(folder, name)
    graph = Source.open(str(folder / f"{name}.npz")).graph
    homes = [int(line) for line in (folder / f"{name}.homes.txt").read_text().split()]
    return graph, starts_of(graph, homes), pagerank(graph.indptr, graph.indices)


def gathered(graph: LinkGraph, seeds: list[int], ranks: Floats, ordering: str) -> Floats:
    """Return the share of all PageRank after each of `SHARES`, and the average, of one crawl."""
    can_reach = reachable(graph, seeds)
    if ordering == "sorted":
        order = best_order(ranks, can_reach)
    else:
        name, options = parse_ordering(ordering)
        order = crawl_order(graph, seeds, make_ordering(name, options))
    total = np.cumsum(ranks[order]) / ranks[can_reach].sum()
    at = [max(round(share * len(order)), 1) - 1 for share in SHARES]
    return np.append(total[at], average_cumulative_pagerank(order, ranks, can_reach))


def print_curves(folder: Path, orderings: list[str]) -> None:
    """Print a Markdown table of means over the webs, and of the least difference to the usual."""
    found: dict[str, dict[str, Floats]] = {}
    for name in JUDGE:
        if name in HOSTS and not (folder / "uk1996-hosts.npz").exists():
            continue
        graph, starts, ranks = opened(folder, name)
        found[name] = {
            text: np.mean([gathered(graph, seeds, ranks, text) for seeds in starts], axis=0)
            for text in (*orderings, "sorted")
        }
        print(f"{name}: {graph.n_pages:,} pages, {graph.n_sites} sites", file=sys.stderr)
    print("| | " + " | ".join(f"{share:.0%}" for share in SHARES) + " | average |")
    for text in (*orderings, "sorted"):
        means = np.mean([each[text] for each in found.values()], axis=0)
        print(f"| {text} | " + " | ".join(f"{x:.3f}" for x in means) + " |")
        above = {name: each[text] - each[USUAL] for name, each in found.items()}
        worst = [min(above, key=lambda name, k=k: above[name][k]) for k in range(len(means))]
        least = " | ".join(f"{above[name][k]:+.3f}, {name}" for k, name in enumerate(worst))
        print(f"| least above {USUAL} | {least} |")


def links_of_ring(kind: str, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sources and targets of the links among n added pages, of kinds that are only here.

    Rings: each page links to the next ten. Wheels: a hub and 30 pages, each of which links to the
    hub and to its neighbours; hubs link to all of their pages and to the next hub. Doorways: sites
    of three pages, which link to each other, to the front page and to the next site.
    """
    page = np.arange(n)
    if kind == "rings":
        near = (page[:, None] + np.arange(1, 11)) % n
    elif kind == "wheels":
        hub, place = page // 31 * 31, page % 31
        before, after = np.where(place <= 1, 30, place - 1), np.where(place == 30, 1, place + 1)
        near = np.column_stack([hub, hub + after, hub + before])
    else:
        base = page // 3 * 3
        near = np.column_stack([np.zeros(n, dtype=np.int64), base[:, None] + np.arange(4)])
    source, target = np.repeat(page, near.shape[1]), near.ravel()
    if kind == "wheels":
        hubs = page[page % 31 == 0]
        source = np.append(source, np.repeat(hubs, 31))
        target = np.append(target, (hubs[:, None] + np.arange(1, 32)).ravel())
    is_link = (target < n) & (target != source)
    return source[is_link], target[is_link]


def attacked_webs(graph: LinkGraph, seeds: list[int]) -> Iterator[tuple[str, LinkGraph]]:
    """Yield the web under each attack, with the kind."""
    n_reached = int(reachable(graph, seeds).sum())
    usual_links = attacks._added_links
    for kind in ATTACKS:
        if kind not in attacks.KINDS:
            attacks._added_links = lambda kind, n, rng: links_of_ring(kind, n)
        for share, entries in ENTRIES:
            n_entries = entries if entries >= 1 else max(int(n_reached * entries), 1)
            web = attacks.attacked(graph, seeds, kind, int(n_entries), share)
            if kind == "doorways":
                sites = np.arange(web.n_pages - graph.n_pages, dtype=np.int32) // 3 + graph.n_sites
                web = LinkGraph(web.indptr, web.indices, site=np.append(graph.site, sites))
            yield kind, web
        attacks._added_links = usual_links


def print_attacks(folder: Path, orderings: list[str]) -> None:
    """Print how far the averages are from those of breadth-first, by kind of attack."""
    above: dict[str, dict[str, list[float]]] = {text: {} for text in orderings}
    for name in ATTACKED:
        graph, starts, ranks = opened(folder, name)
        for seeds in (starts[0], starts[-1]):
            for kind, web in attacked_webs(graph, seeds):
                worth = np.append(ranks, np.zeros(web.n_pages - graph.n_pages))
                usual = gathered(web, seeds, worth, USUAL)[-1]
                for text in orderings:
                    own = gathered(web, seeds, worth, text)[-1]
                    above[text].setdefault(kind, []).append(own - usual)
        print(name, file=sys.stderr)
    print("| | " + " | ".join(orderings) + " |")
    for kind in ATTACKS:
        cells = [above[text][kind] for text in orderings]
        row = (f"{np.mean(x):+.3f}, {min(x):+.3f}, {sum(v < -0.03 for v in x)}" for x in cells)
        print(f"| {kind} ({len(cells[0])}) | " + " | ".join(row) + " |")


def main() -> None:
    """Build, crawl, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ordering", action="append", help="name, and options; repeatable")
    parser.add_argument("--attacks", action="store_true", help="add farms and traps")
    given = parser.parse_args()
    orderings = given.ordering or list(DEFAULT)
    if given.attacks:
        print_attacks(given.folder, [text for text in orderings if text != USUAL])
    else:
        print_curves(given.folder, [USUAL, *(text for text in orderings if text != USUAL)])


if __name__ == "__main__":
    main()
