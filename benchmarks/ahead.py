"""What is gathered from 1 to 40 % of the pages, and under attack, on webs set aside; run by hand.

    python benchmarks/ahead.py FOLDER [--set first|second] [--ordering NAME[:OPTION=VALUE,...]]...
        [--in-flight N] [--attacks] [--json FILE]
    python benchmarks/ahead.py --tables FILE

Builds the webs of a set in FOLDER, outside the repository, unless they are there: public git
histories and Debian packages, and webs generated along the hosts of the .uk web of 1996
(`uk1996-hosts.npz` in FOLDER). Each ordering crawls each web from each start, by order alone or
with `--in-flight` fetches at once; each web counts once. `--attacks` adds farms and traps instead,
and prints averages less those of breadth-first. `--json` adds all figures to a file; from that in
docs/orderings, `--tables` prints the tables of sibling-sampling.md.

The webs, starts and attacks of a set were written down before any ordering was run on them, and
have judged once: nothing may be tuned on them. `EARLIER` had judged earlier versions of
`sibling-sampling` when the first set was made; the other webs were new.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import archives
import numpy as np
import webs
from archive_list import ASIDE_FIRST, ASIDE_SECOND
from numpy.typing import NDArray
from quality import SHARES, parse_ordering

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.graph.synthetic import synthetic_web
from crawlprio.measure.crawl_order import best_order, cumulative_pagerank, reachable
from crawlprio.orderings import make_ordering
from crawlprio.ranking.pagerank import pagerank
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import timed_crawl

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

import attacks

archives.ARCHIVES.update(ASIDE_FIRST | ASIDE_SECOND)

PACKAGES = {
    "aside-java": ("groovy-doc", "tomcat10-docs", "libreoffice-dev-doc"),
    "aside-tools": (
        *("kicad-doc-en", "fricas-doc", "asymptote-doc", "pike8.0-doc", "swig4.0-doc"),
        *("puppetdb-doc", "python-xarray-doc", "python-mpmath-doc", "ntpsec-doc"),
        *("docbook-xsl-doc-html", "lua5.2-doc", "bash-doc"),
    ),
    "aside-services": (
        *("cinder-doc", "buildbot-doc", "beets-doc", "borgbackup-doc", "python-astroquery-doc"),
        *("python-cherrypy3-doc", "python-bs4-doc", "cargo-doc", "python-behave-doc"),
        *("ceilometer-doc", "barbican-doc", "charliecloud-doc"),
    ),
    "aside-libraries": (
        *("allegro5-doc", "libassimp-doc", "ceres-solver-doc", "libbox2d-doc", "libatk1.0-doc"),
        *("libbotan-2-doc", "libclutter-1.0-doc", "angelscript-doc", "libcfitsio-doc"),
    ),
}
"""Debian packages of a web, each a site."""

EARLIER = ("imagej-lists", "openenergy-forum", "asm-forum", "luciddb-wiki", "your-sinclair")
HOSTS = {
    "hosts-77": (77, 900, 0.08),
    "hosts-78": (78, 2500, 0.2),
    "hosts-79": (79, 400, 0.12),
    "hosts-80": (80, 1500, 0.15),
}
"""Generated webs of 40,000 pages: seed, sites, and share of links between them."""

SETS = {
    "first": (*ASIDE_FIRST, "aside-java", "aside-tools", *EARLIER, "hosts-77", "hosts-78"),
    "second": (*ASIDE_SECOND, "aside-services", "aside-libraries", "hosts-79", "hosts-80"),
}
ATTACKED = {
    "first": ("aside-tools", "mozilla-archive", "art-institute", "luciddb-wiki", "your-sinclair"),
    "second": ("aside-services", "unreal-wiki", "socionics-wiki", "mapnik-list"),
}
ATTACKS = {
    "first": ("rings", "wheels", "doorways", "domains", "calendar", "mirrors", "expired", "farm"),
    "second": ("rings", "wheels", "doorways", "farm", "domains"),
}
ENTRIES = {
    "first": ((0.3, 10), (0.3, 0.1), (0.3, 0.3), (0.1, 0.3)),
    "second": ((0.1, 10), (0.1, 0.3), (0.3, 10), (0.3, 0.3)),
}
"""Added pages as a share of all, and pages that link to them: a number, or a share of the web."""

STARTS, DRAW = 3, 2024
USUAL, WORTH = "breadth-first", 0.03
DEFAULT = (USUAL, "random", "opic", "rankmass", "scout", "sibling-sampling")
COLUMNS = (*(f"{100 * share:g} %" for share in SHARES), "average")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Crawl:
    """One crawl: `gathered` is the share of the PageRank of all pages after each of `SHARES`, and
    the average.

    `attack` is "", or the kind with its share of all pages and of the pages that link to it.
    """

    web: str
    kind: str
    start: int
    attack: str
    in_flight: int
    ordering: str
    gathered: list[float]


def kind_of(name: str) -> str:
    """Return the kind of a web."""
    if name in HOSTS:
        return "generated"
    return "documentation" if name in PACKAGES else archives.ARCHIVES[name].kind


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
        archive = archives.ARCHIVES[name]
        if name == "art-institute":
            tree = archives.Tree(folder / "git" / archive.repository.replace("/", "+"), archive)
            tree.close()
            homes = sorted(
                path
                for path in tree.blobs
                if path.count("/") == 1 and path.lower().endswith("/index.html")
            )
            archives.ARCHIVES[name] = archive._replace(homes=tuple(homes))
        archives.build(folder, [name])


def starts_of(graph: LinkGraph, homes: list[int], which: str) -> list[list[int]]:
    """Return the starts of a set on a web; single pages reach half as much as the home page.

    First set: all home pages, if there are several, the first, and three pages drawn at random.
    Second set: all home pages, ten pages drawn at random together, and of 400 pages drawn the one
    that is the most links away from the first home page.
    """
    least = max(int(reachable(graph, homes[:1]).sum()), 0.3 * graph.n_pages) / 2
    drawn = np.random.default_rng(DRAW).permutation(graph.n_pages)[:400].tolist()
    if which == "second":
        order = timed_crawl(graph, homes[:1], make_ordering(USUAL), Network()).order
        place = dict(zip(order.tolist(), range(len(order)), strict=True))
        for page in sorted(drawn, key=lambda page: -place.get(page, -1)):
            if reachable(graph, [page]).sum() >= least:
                return [homes, drawn[:10], [page]]
        return [homes, drawn[:10]]
    single = [homes[0]]
    for page in drawn:
        if len(single) > STARTS:
            break
        if page not in single and reachable(graph, [page]).sum() >= least:
            single.append(page)
    return [homes] * (len(homes) > 1) + [[page] for page in single]


def opened(folder: Path, name: str, which: str) -> tuple[LinkGraph, list[list[int]], Floats]:
    """Return a web, its starts and its PageRank."""
    build(folder, name)
    graph = Source.open(str(folder / f"{name}.npz")).graph
    homes = [int(line) for line in (folder / f"{name}.homes.txt").read_text().split()]
    print(f"{name}: {graph.n_pages:,} pages, {graph.n_sites} sites", file=sys.stderr, flush=True)
    return graph, starts_of(graph, homes, which), pagerank(graph.indptr, graph.indices)


def gathered(
    graph: LinkGraph, seeds: list[int], ranks: Floats, ordering: str, network: Network
) -> list[float]:
    """Return the share of the PageRank of all pages after each of `SHARES`, and the average."""
    can_reach = reachable(graph, seeds)
    if ordering == "sorted":
        order = best_order(ranks, can_reach)
    else:
        name, options = parse_ordering(ordering)
        order = timed_crawl(graph, seeds, make_ordering(name, options), network).order
    total = np.cumsum(ranks[order]) / ranks[can_reach].sum()
    at = [max(round(share * len(order)), 1) - 1 for share in SHARES]
    average = cumulative_pagerank(order, ranks, can_reach).mean()
    return [round(float(x), 5) for x in (*total[at], average)]


def crawl(folder: Path, which: str, orderings: list[str], in_flight: int) -> Iterator[Crawl]:
    """Crawl the webs of a set from all starts."""
    network = Network(robots=in_flight, latency=float(in_flight > 1))
    for name in SETS[which]:
        graph, starts, ranks = opened(folder, name, which)
        for number, seeds in enumerate(starts):
            for text in (*orderings, "sorted"):
                found = gathered(graph, seeds, ranks, text, network)
                yield Crawl(name, kind_of(name), number, "", in_flight, text, found)


def crawl_attacked(folder: Path, which: str, orderings: list[str]) -> Iterator[Crawl]:
    """Crawl the attacked webs of a set, from the first and the last start."""
    for name in ATTACKED[which]:
        graph, starts, ranks = opened(folder, name, which)
        for number, seeds in enumerate((starts[0], starts[-1])):
            for kind, entry, web in attacked_webs(graph, seeds, which):
                worth = np.append(ranks, np.zeros(web.n_pages - graph.n_pages))
                for text in orderings:
                    found = gathered(web, seeds, worth, text, Network())
                    yield Crawl(name, kind_of(name), number, f"{kind} {entry}", 1, text, found)


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


def attacked_webs(
    graph: LinkGraph, seeds: list[int], which: str
) -> Iterator[tuple[str, str, LinkGraph]]:
    """Yield the web under each attack: kind, share added and pages that link to it, web."""
    n_reached = int(reachable(graph, seeds).sum())
    usual_links = attacks._added_links
    for kind in ATTACKS[which]:
        if kind not in attacks.KINDS:
            attacks._added_links = lambda kind, n, rng: links_of_ring(kind, n)
        for share, entries in ENTRIES[which]:
            n_entries = entries if entries >= 1 else max(int(n_reached * entries), 1)
            web = attacks.attacked(graph, seeds, kind, int(n_entries), share)
            if kind == "doorways":
                sites = np.arange(web.n_pages - graph.n_pages, dtype=np.int32) // 3 + graph.n_sites
                web = LinkGraph(web.indptr, web.indices, site=np.append(graph.site, sites))
            yield kind, f"{share:g} {entries:g}", web
        attacks._added_links = usual_links


def means(crawls: Iterable[Crawl]) -> dict[str, dict[str, Floats]]:
    """Return the means over the starts of each web, by ordering and web."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for each in crawls:
        found.setdefault(each.ordering, {}).setdefault(each.web, []).append(each.gathered)
    return {
        text: {web: np.mean(rows, axis=0) for web, rows in of_web.items()}
        for text, of_web in found.items()
    }


def curves(crawls: list[Crawl]) -> Iterator[str]:
    """Yield the lines of a Markdown table: means over the webs, and the web that is least above."""
    found = means(crawls)
    yield "| | " + " | ".join(COLUMNS) + " |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for text, of_web in found.items():
        mean = np.mean([*of_web.values()], axis=0)
        yield f"| {text} | " + " | ".join(f"{x:.3f}" for x in mean) + " |"
        if text not in (USUAL, "sorted"):
            above = {web: of_web[web] - found[USUAL][web] for web in of_web}
            worst = [min(above, key=lambda web, k=k: above[web][k]) for k in range(len(COLUMNS))]
            least = (f"{above[web][k]:+.3f}, {web}" for k, web in enumerate(worst))
            yield "| least | " + " | ".join(least) + " |"


KINDS = {
    "documentation": "documentation",
    "wiki": "wikis",
    "forum": "forums",
    "mailing list": "mailing lists",
    "mailing lists": "mailing lists",
    "generated": "generated, of 400 to 2,500 sites",
}
OTHERS = "organisations, a museum, a magazine"


def by_kind(crawls: list[Crawl]) -> Iterator[str]:
    """Yield the lines of a Markdown table of what has been gathered after 10 and 20 %, by kind."""
    kinds = {each.web: KINDS.get(each.kind, OTHERS) for each in crawls}
    found, counts = means(crawls), Counter(kinds.values())
    columns = ("sibling-sampling", USUAL, "random")
    heads = (f"{name}, {100 * share:g} %" for share in (0.1, 0.2) for name in columns)
    yield "| webs | " + " | ".join(heads) + " |"
    yield "|---" * (2 * len(columns) + 1) + "|"
    for kind in dict.fromkeys((*KINDS.values(), OTHERS)):
        cells = (
            statistics.fmean(found[text][web][k] for web in kinds if kinds[web] == kind)
            for k in (SHARES.index(0.1), SHARES.index(0.2))
            for text in columns
        )
        yield f"| {kind} ({counts[kind]}) | " + " | ".join(f"{100 * x:.0f} %" for x in cells) + " |"


def under_attack(crawls: list[Crawl]) -> Iterator[str]:
    """Yield the lines of a Markdown table of averages less those of breadth-first."""
    at = {(c.web, c.start, c.attack, c.ordering): c.gathered[-1] for c in crawls}
    orderings = [text for text in dict.fromkeys(c.ordering for c in crawls) if text != USUAL]
    cases = list(dict.fromkeys((c.web, c.start, c.attack) for c in crawls))
    yield "| | " + " | ".join(orderings) + " |"
    yield "|---" * (len(orderings) + 1) + "|"
    for kind in (*dict.fromkeys(attack.split()[0] for _, _, attack in cases), ""):
        of_kind = [case for case in cases if case[2].startswith(kind)]
        cells = []
        for text in orderings:
            above = [at[*case, text] - at[*case, USUAL] for case in of_kind]
            n_below = sum(x < -WORTH for x in above)
            cells.append(f"{np.mean(above):+.3f}, {min(above):+.3f}, {n_below}")
        yield f"| {kind or 'all'} ({len(of_kind)}) | " + " | ".join(cells) + " |"


def read(path: Path) -> list[Crawl]:
    """Return the crawls in a file."""
    return [Crawl(**row) for row in json.loads(path.read_text())]


def print_tables(crawls: list[Crawl]) -> None:
    """Print all tables."""
    honest = [each for each in crawls if not each.attack]
    for which, names in SETS.items():
        of_set = [each for each in honest if each.web in names and each.ordering != "random"]
        for in_flight in sorted({each.in_flight for each in of_set}):
            shown = [each for each in of_set if each.in_flight == in_flight]
            print(f"\n{which} set, {in_flight} in flight\n", *curves(shown), sep="\n")
        if attacked := [each for each in crawls if each.attack and each.web in names]:
            print("", *under_attack(attacked), sep="\n")
    if any(each.ordering == "random" for each in honest):
        print("", *by_kind([each for each in honest if each.in_flight == 1]), sep="\n")


def main() -> None:
    """Build, crawl, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--set", choices=SETS, default="second", help="which webs")
    parser.add_argument("--ordering", action="append", help="name, and options; repeatable")
    parser.add_argument("--in-flight", type=int, default=1, help="fetches at once")
    parser.add_argument("--attacks", action="store_true", help="add farms and traps")
    parser.add_argument("--json", type=Path, help="add all figures to this file")
    parser.add_argument("--tables", type=Path, help="print the tables of such a file instead")
    given = parser.parse_args()
    if given.tables:
        print_tables(read(given.tables))
        return
    orderings = list(dict.fromkeys((USUAL, *(given.ordering or DEFAULT))))
    if given.attacks:
        attacked = [text for text in orderings if text != "random"]
        found = list(crawl_attacked(given.folder, given.set, attacked))
    else:
        found = list(crawl(given.folder, given.set, orderings, given.in_flight))
    print_tables(found)
    if given.json:
        before = read(given.json) if given.json.exists() else []
        lines = ",\n".join(json.dumps(asdict(each)) for each in (*before, *found))
        given.json.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
