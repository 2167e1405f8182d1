"""Where the time of the engine goes without a network, by library, by module and by function.

    python benchmarks/profiled.py [--pages 5000] [--sites 100] [--crawl crawlprio] [--functions 25]
                                  [--calls]

`--crawl` is `crawlprio`, `stock`, `follow+addon` or `rules+addon`. The first run is sampled: 1,000
times a second, from the first response to the last, it records the running function and its
callers, which hardly slows the crawl. With `--calls`, a second run under cProfile counts calls; it
makes small Python functions look more expensive than they are.

What it does not show: threads other than the main thread. Compiled code (Numba, lexbor, ada,
SQLite) is attributed to the Python function that calls it.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from types import FrameType

from harness import FOLDER, N_WARM_UP, Crawl, our_crawl, run, stock_crawl, with_addon
from synthetic_web import Clock

INTERVAL = 0.001
ROOT = Path(__file__).resolve().parent.parent

Place = tuple[str, str, int]
"""File, function and its first line."""


class Sampler:
    """Records where the main thread is, at equal time steps."""

    def __init__(self) -> None:
        self.own: Counter[Place] = Counter()
        self.total: Counter[Place] = Counter()
        self.lines: Counter[tuple[Place, int]] = Counter()
        self.n_samples = 0

    def start(self) -> None:
        signal.signal(signal.SIGALRM, self._sample)
        signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self.n_samples += 1
        seen: set[Place] = set()
        if frame is not None:
            place = place_of(frame)
            self.own[place] += 1
            self.lines[place, frame.f_lineno] += 1
        while frame is not None:
            seen.add(place_of(frame))
            frame = frame.f_back
        self.total.update(seen)


def place_of(frame: FrameType) -> Place:
    code = frame.f_code
    return code.co_filename, code.co_qualname, code.co_firstlineno


def group_of(file: str) -> str:
    """Return the library, or the module of crawlprio, that a file belongs to."""
    path = Path(file)
    if ROOT / "crawlprio" in path.parents:
        return str(path.relative_to(ROOT))
    if path.parent == ROOT / "benchmarks":
        return "benchmark: making the pages"
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")
    if path.parent.name in ("asyncio", "json", "logging"):
        return path.parent.name
    return f"standard library: {path.stem}" if path.suffix else "generated code"


def shown(place: Place) -> str:
    file, function, line = place
    group = group_of(file)
    where = group if group.startswith("crawlprio") else f"{group}/{Path(file).name}"
    return f"{where}:{line} {function}"


def report(sampler: Sampler, n_functions: int) -> None:
    """Print the shares of groups, and of the functions with the largest shares."""
    n = max(sampler.n_samples, 1)
    groups: Counter[str] = Counter()
    for place, count in sampler.own.items():
        groups[group_of(place[0])] += count
    ours = sum(count for group, count in groups.items() if group.startswith("crawlprio"))
    print(f"{n:,} samples; {100 * ours / n:.1f} % in crawlprio and the compiled code it calls")
    for group, count in groups.most_common():
        if count >= n / 500:
            print(f"{100 * count / n:6.1f} %  {group}")
    print(f"\n   own  with callees  the {n_functions} functions with most time of their own")
    for place, count in sampler.own.most_common(n_functions):
        print(f"{100 * count / n:5.1f} % {100 * sampler.total[place] / n:7.1f} %    {shown(place)}")
    print(
        f"\nwith callees  the {n_functions} functions of crawlprio with most time, callees included"
    )
    ours_by_total = Counter(
        {p: count for p, count in sampler.total.items() if group_of(p[0]).startswith("crawlprio")}
    )
    for place, count in ours_by_total.most_common(n_functions):
        print(f"{100 * count / n:8.1f} %    {shown(place)}")


def crawl_called(name: str, n_pages: int, n_sites: int) -> Crawl:
    """Return the crawl to profile."""
    follow, rules = (
        stock_crawl(n_pages, n_sites, f"synthetic_web.{spider}")
        for spider in ("FollowSpider", "RulesSpider")
    )
    crawls = {
        "crawlprio": our_crawl(n_pages, n_sites),
        "stock": follow,
        "follow+addon": with_addon(follow, "follow+addon"),
        "rules+addon": with_addon(rules, "rules+addon"),
    }
    if name not in crawls:
        sys.exit(f"--crawl is {name!r}; known: {', '.join(crawls)}.")
    return crawls[name]


def profile(crawl: Crawl, how: str, n_functions: int) -> None:
    """Crawl in this process, and print where the time went."""
    import child

    sampler, profiler = Sampler(), cProfile.Profile()
    Clock.on_start = sampler.start if how == "sampled" else profiler.enable
    Clock.on_end = sampler.stop if how == "sampled" else profiler.disable
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        figures = child.run(crawl)
    print(f"{how}: {crawl.label}, {figures.rate:,.0f} pages/s")
    if how == "sampled":
        report(sampler, n_functions)
    else:
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(n_functions)


def profile_apart(crawl: Crawl, how: str = "sampled", n_functions: int = 25) -> None:
    """Crawl in a new process, in an empty folder, and print where the time went."""
    line = [sys.executable, str(FOLDER / "profiled.py"), "--how", how]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*line, "--functions", str(n_functions)],
            cwd=folder,
            input=json.dumps(asdict(crawl)),
            text=True,
            check=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=5000, help="default %(default)s")
    parser.add_argument("--sites", type=int, default=100, help="default %(default)s")
    parser.add_argument("--crawl", default="crawlprio", help="default %(default)s")
    parser.add_argument("--functions", type=int, default=25, help="default %(default)s")
    parser.add_argument("--calls", action="store_true", help="cProfile too")
    parser.add_argument("--how", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.how:
        profile(Crawl(**json.load(sys.stdin)), given.how, given.functions)
        return
    crawl = crawl_called(given.crawl, given.pages, given.sites)
    run(replace(crawl, n_pages=N_WARM_UP))
    for how in ("sampled", "cProfile") if given.calls else ("sampled",):
        profile_apart(crawl, how, given.functions)


if __name__ == "__main__":
    main()
