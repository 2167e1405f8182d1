"""The cost of crawling a large synthetic web: generating it, PageRank, and simulations.

    python benchmarks/scale.py [--pages N]... [--sites N] [--hosts GRAPH] [--ordering NAME]...

The default webs have 300,000, 3 million and 30 million pages with ten links per page, on at most
50,000 sites. Crawls start from all home pages: once by order alone, and once with a clock, 256
robots and 15 seconds between fetches on a site. Each step runs in its own process, forked from one
that holds the web, so that its peak resident memory counts only the web and that step. Compiling
does not count. Everything runs on one core. Processor seconds are printed next to wall seconds,
which other processes stretch. The largest web takes about 30 minutes and 6 GiB.

It shows how time and memory grow with a web, not fetching, parsing or a store. A synthetic web
resembles real ones in degrees and sizes. Its pages are numbered site by site, which suits caches.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection

import numpy as np

from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import home_pages, synthetic_web
from crawlprio.orderings import make_ordering
from crawlprio.plugins.papers.distributions import fit_power_law
from crawlprio.ranking.pagerank import pagerank
from crawlprio.show.simulation_results import compile_kernels
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import crawl_order, timed_crawl
from crawlprio.store.graph_files import read_graph

SIZES = (300_000, 3_000_000, 30_000_000)
ORDERINGS = (
    "breadth-first",
    "depth-first",
    "random",
    "backlink-count",
    "opic",
    "larger-sites-first",
)
ROBOTS, DELAY = 256, 15.0
BOUND_SECONDS, BOUND_SECONDS_IN_TIME, BOUND_GIB = 600.0, 1200.0, 16.0
Result = tuple[float, float, float, str]


def peak_gib() -> float:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def apart(step: Callable[[], str]) -> Result:
    """Run a step in its own process; return seconds, CPU seconds, GiB, and its message."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(step, sender))
    process.start()
    sender.close()
    try:
        result: Result = receiver.recv()
    except EOFError:
        sys.exit("a step failed; its error is above.")
    finally:
        process.join()
    return result


def _report(step: Callable[[], str], sender: Connection) -> None:
    start, start_cpu = time.perf_counter(), time.process_time()
    said = step()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    sender.send((seconds, cpu_seconds, peak_gib(), said))


def degrees_of(web: LinkGraph) -> str:
    """Return the exponents of degrees and site sizes, and shares."""
    out_degrees = np.diff(web.indptr)
    n_between = 0
    for first in range(0, web.n_pages, 1_000_000):
        end = min(first + 1_000_000, web.n_pages)
        targets = web.indices[web.indptr[first] : web.indptr[end]]
        own = np.repeat(web.site[first:end], out_degrees[first:end])
        n_between += int((own != web.site[targets]).sum())
    laws = {
        "in-degree": fit_power_law(np.bincount(web.indices, minlength=web.n_pages)),
        "out-degree": fit_power_law(out_degrees),
        "pages per site": fit_power_law(np.bincount(web.site)),
    }
    exponents = "; ".join(
        f"{name} {law.exponent:.2f} from {law.minimum} on" for name, law in laws.items()
    )
    return (
        f"exponents: {exponents}\n"
        f"largest in-degree {np.bincount(web.indices).max():,}, out-degree {out_degrees.max():,}, "
        f"site {np.bincount(web.site).max():,} pages; links between sites "
        f"{n_between / web.n_links:.1%}; dangling {(out_degrees == 0).mean():.1%}"
    )


def depths_of(web: LinkGraph) -> str:
    """Return the number of pages at each distance from the nearest home page."""
    depth = np.full(web.n_pages, -1, dtype=np.int16)
    level = home_pages(web)
    depth[level] = 0
    counts = [len(level)]
    while len(level):
        first, n = web.indptr[level], np.diff(web.indptr)[level]
        places = np.repeat(first - np.cumsum(n) + n, n) + np.arange(int(n.sum()))
        found = np.zeros(web.n_pages, dtype=np.bool_)
        found[web.indices[places]] = True
        level = np.flatnonzero(found & (depth < 0)).astype(np.int32)
        depth[level] = len(counts)
        counts.append(len(level))
    shares = " ".join(f"{count / web.n_pages:.1%}" for count in counts[:-1])
    return f"reached from the home pages {sum(counts) / web.n_pages:.1%}; by depth: {shares}"


def ranks_of(web: LinkGraph) -> str:
    """Compute PageRank; return its distribution."""
    start, start_cpu = time.perf_counter(), time.process_time()
    ranks = pagerank(web.indptr, web.indices)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    peak = peak_gib()
    law = fit_power_law(np.floor(10.0 * ranks * web.n_pages).astype(np.int64))
    shares = np.cumsum(np.sort(ranks)[::-1])
    best = ", ".join(f"{x:.0%} {shares[int(x * web.n_pages)]:.2f}" for x in (0.05, 0.1, 0.3))
    return (
        f"PageRank to 1e-10: {seconds:.1f} s, {cpu_seconds:.1f} s of CPU, peak {peak:.2f} GiB; "
        f"exponent {law.exponent:.2f}; share of the best {best}"
    )


def order_of(web: LinkGraph, seeds: list[int], name: str) -> str:
    """Crawl everything reachable; return the number of pages."""
    return str(len(crawl_order(web, seeds, make_ordering(name, {}))))


def timed_order_of(web: LinkGraph, seeds: list[int], name: str) -> str:
    """Crawl the same with a clock; return the number of pages."""
    network = Network(robots=ROBOTS, politeness=Politeness(delay=DELAY))
    return str(timed_crawl(web, seeds, make_ordering(name, {}), network).fetched)


def simulate(
    web: LinkGraph, names: Sequence[str], cost_of_first: dict[str, float], *, in_time: bool
) -> None:
    """Print a line for each ordering, with its cost relative to the first web."""
    seeds = home_pages(web).tolist()
    crawl = timed_order_of if in_time else order_of
    bound = BOUND_SECONDS_IN_TIME if in_time else BOUND_SECONDS
    kind = f"r = {ROBOTS}, w = {DELAY:g} s" if in_time else "order-only"
    print(
        f"{kind:20} {'fetched':>12} {'seconds':>9} {'CPU s':>9} {'pages/CPU s':>12} "
        f"{'GiB':>6}  CPU of a page"
    )
    for name in names:
        seconds, cpu_seconds, peak, fetched = apart(partial(crawl, web, seeds, name))
        n_fetched = int(fetched)
        cost = cpu_seconds / n_fetched
        ratio = cost / cost_of_first.setdefault(f"{kind}: {name}", cost)
        held = "" if cpu_seconds <= bound and peak <= BOUND_GIB else "; over the bound"
        print(
            f"{name:20} {n_fetched:12,} {seconds:9.1f} {cpu_seconds:9.1f} "
            f"{n_fetched / cpu_seconds:12,.0f} {peak:6.2f}  "
            f"{ratio:.2f} times the first web's{held}",
            flush=True,
        )


def main() -> None:
    """Print a paragraph and a table for each web."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, action="append")
    parser.add_argument("--sites", type=int, default=50_000, help="at most; default %(default)s")
    parser.add_argument("--hosts", help="graph of hosts that sites link along")
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--without-statistics", action="store_true")
    given = parser.parse_args()

    compile_kernels(in_time=True)
    small = synthetic_web(100, 10)
    for name in given.ordering or ORDERINGS:
        order_of(small, [0], name)
        timed_order_of(small, [0], name)
    hosts = read_graph(given.hosts) if given.hosts else None
    cost_of_first: dict[str, float] = {}
    for n_pages in given.pages or SIZES:
        n_sites = max(min(given.sites, n_pages // 60), 1)
        start, start_cpu = time.perf_counter(), time.process_time()
        web = synthetic_web(n_pages, n_sites, hosts=hosts)
        print(
            f"{n_pages:,} pages, {web.n_links:,} links, {n_sites:,} sites: "
            f"made in {time.perf_counter() - start:.1f} s, "
            f"{time.process_time() - start_cpu:.1f} s of CPU, peak {peak_gib():.2f} GiB",
            flush=True,
        )
        if not given.without_statistics:
            for describe in (degrees_of, depths_of, ranks_of):
                print(apart(partial(describe, web))[3], flush=True)
        for in_time in (False, True):
            simulate(web, given.ordering or ORDERINGS, cost_of_first, in_time=in_time)
        del web


if __name__ == "__main__":
    main()
