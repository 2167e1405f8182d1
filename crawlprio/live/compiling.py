"""Compilation of what a crawl runs, in a process of its own, or of everything, on tiny inputs."""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import platform
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from scrapy.http import Response
from scrapy.utils.asyncio import call_later, run_in_thread
from scrapy.utils.defer import deferred_from_coro

from crawlprio.frontier import PageQueue
from crawlprio.graph import compiled
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_context import CrawlPart
from crawlprio.orderings import (
    ALL_PAGES,
    COMPARED,
    ORDERINGS,
    Changed,
    Ordering,
    find_ordering,
    make_ordering,
)
from crawlprio.settings_table.config import read_setting
from crawlprio.store.hashtable import HashTable
from crawlprio.web.anchors import ParsedPage
from crawlprio.web.html_splitter import compile_scan, n_bytes_scanned

AFTER = 500
"""Pages that a crawl fetches before it compiles: in Python they take about as much longer as
loading compiled code takes."""

AFTER_BYTES = 5_000_000
"""Bytes of pages scanned in Python after which it compiles: they took .4 s more."""

Asked = tuple[str, dict[str, Any]] | None
"""Name and options of an ordering; None for the code that reads pages alone."""

_PACKAGE = Path(__file__).parents[1]

_SCRIPT = """
import os, pickle, sys
if hasattr(os, "nice"):
    os.nice(19)
sys.path[:], asked = pickle.load(sys.stdin.buffer)
from crawlprio.live.compiling import compile_asked
compile_asked(asked)
"""

logger = logging.getLogger("crawlprio")


class _Restless(Ordering):
    """Changes all keys in some visits, so that a crawl calls each function of the queue."""

    def observe(self, visit: Visit) -> Changed:
        return ALL_PAGES if visit.page % 2 else visit.targets


def compile_crawl(ordering: Ordering) -> None:
    """Compile, or load from numba's cache, the code that a live crawl runs between two fetches."""
    compiled.load()
    ordering.compile()
    compile_scan()
    table = HashTable()
    table.add_run(range(1000), 0)
    table.add(1000, table.find(0))
    table.find_all([0])
    pages = PageTable()
    site = pages.site("")
    pages.add("seed", "seed", site)
    queue = PageQueue(_Restless(), pages)
    queue.observe(Visit(NO_PAGE, np.array([0], dtype=np.int32)))
    for now in (0.0, 1.0, 2.0):
        page = queue.next_page(now)
        pages.add(f"page {now}", f"page {now}", site)
        queue.end_fetch(site, now + 0.5)
        queue.observe(Visit(page, np.array([len(pages) - 1], dtype=np.int32)))
        queue.release(page)
    queue.next_page(2.0)
    queue.add(queue.next_page(3.0), 1)


class BackgroundCompilation(CrawlPart):
    """Compiles what a crawl runs in a process of its own, and then switches to compiled code.

    A crawl begins in Python, which gives the same order, and without Numba's 120 MB. After `AFTER`
    pages, or `AFTER_BYTES` of pages that take Python long, or at once under an ordering that
    `is_slow_in_python`, the process begins, at the lowest priority, unless Numba's cache is known
    to have the code. Then the crawl loads it, which takes .35 s; a worker loads it from the
    cache at once. The process ends with the crawl, however that ends.
    """

    is_in_workers = True
    _process: subprocess.Popen[bytes] | None = None
    _timer: Any = None
    _n_read = 0

    def opened(self) -> None:
        frontier, self._n_scanned = self.crawl.local_frontier, n_bytes_scanned()
        self._queue = None if frontier is None else frontier.queue
        if self.crawl.tell_coordinator is not None and _is_cached(None):
            self._n_read = AFTER
        if self._queue is None or self._queue.is_plain:
            self._look()

    def read(self, pairs: LinkPairs, response: Response, page: ParsedPage) -> None:
        self._n_read += 1
        if self._timer is not None and self._process is None and self._is_worth_it():
            self._timer.cancel()
            self._look()

    def _look(self) -> None:
        """Begin if it is time, or go on if the process has ended; look again in a second."""
        self._timer = None
        status = None if self._process is None else self._process.poll()
        if self._process is None and self._is_worth_it():
            status = 0 if _is_cached(self._asked) else self._begin()
        if status is None:
            self._timer = call_later(1.0, self._look)
        elif status == 0:
            deferred_from_coro(self._switch()).addErrback(self._stay)
        else:
            self._stay(status)

    def _is_worth_it(self) -> bool:
        queue = self._queue
        if n_bytes_scanned() - self._n_scanned > AFTER_BYTES:
            return True
        if queue is None:
            return self._n_read >= AFTER
        n_fetched = self.crawl.recorder.figures.n_fetched
        return n_fetched >= AFTER or queue.ordering.is_slow_in_python

    @property
    def _asked(self) -> Asked:
        """The ordering, for another process; None in a worker, which has none."""
        if self._queue is None:
            return None
        options = read_setting(self.crawl.crawler.settings, "ORDERING_OPTIONS")
        return self.crawl.config.ordering_name, options

    def _begin(self) -> Any:
        """Begin the process; return the error if the system has no room for it."""
        try:
            self._process = process = subprocess.Popen(
                [sys.executable, "-I", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the crawl, which ends it
            )
        except OSError as error:
            return error
        assert process.stdin is not None
        try:
            process.stdin.write(pickle.dumps((sys.path, self._asked)))
            process.stdin.flush()
        except Exception:  # what cannot be pickled, or a process that did not start
            process.kill()
        return None

    async def _switch(self) -> None:
        """Load the code in a thread, and then use it."""
        await run_in_thread(partial(_compile, self._asked))
        if self._queue is not None and self.crawl.is_running:
            self._queue.compile()
        logger.debug("The crawl goes on in compiled code.")

    def _stay(self, reason: object) -> None:
        logger.debug("The crawl goes on in Python, as compiling failed: %s", reason)

    def closed(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()


def _compile(asked: Asked) -> None:
    if asked is None:
        compile_scan()
    else:
        compile_crawl(make_ordering(*asked))


def load_scan() -> None:
    """Load the code that reads pages, if Numba's cache has it."""
    if _is_cached(None):
        compile_scan()


def _mark(asked: Asked) -> tuple[Path, str]:
    """Return the file that marks Numba's cache as having this code, and what it then says.

    That changes with the sources, the versions, the system and Numba's settings. Numba asks for the
    kind of processor too: where that alone has changed, a crawl compiles in its own process.
    """
    sources = {str(path) for path in _PACKAGE.rglob("*.py")}
    if asked is not None:
        sources.add(inspect.getfile(find_ordering(asked[0])))
    facts = (
        [(path, os.stat(path).st_mtime_ns) for path in sorted(sources)],
        (sys.version, version("numba"), platform.release(), platform.machine()),
        sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_")),
    )
    name, content = (
        blake2b(repr(of).encode(), digest_size=16).hexdigest() for of in (asked, facts)
    )
    return _cache_root() / "__pycache__" / f"crawl-{name}.nbi", content


def _cache_root() -> Path:
    return Path(os.environ.get("NUMBA_CACHE_DIR") or _PACKAGE)


_NO_MARK = OSError, TypeError, ImportError
"""Errors for code without a source file, or where nothing says which version Numba has."""


def _is_cached(asked: Asked) -> bool:
    with suppress(*_NO_MARK):
        path, content = _mark(asked)
        return path.read_text() == content
    return False


def _compile_and_mark(asked: Asked) -> None:
    _compile(asked)
    folder = compiled.folder()
    if folder is not None and folder.is_relative_to(_cache_root()):
        with suppress(*_NO_MARK):
            path, content = _mark(asked)
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)


def compile_asked(asked: Asked) -> None:
    """Compile for another process, and end with it, which closes the input.

    Exits with 1 if that process could not find the code.
    """
    Thread(target=_end_with_input, daemon=True).start()
    _compile_and_mark(asked)
    os._exit(int(not compiled.is_shared()))  # Python would wait for the thread


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def compile_all() -> None:
    """Compile, or load from numba's cache, all that crawls and commands run."""
    _compile_and_mark(None)
    for name in (*COMPARED, "pagerank"):
        _compile_and_mark((name, {}))
    pages = PageTable()
    for page in "ab":
        pages.add(page, page, pages.site(""))
    bounded = PageQueue(make_ordering("breadth-first"), pages, max_waiting=1)
    bounded.observe(Visit(NO_PAGE, np.array([0, 1], dtype=np.int32)))
    bounded.finish(0)
    with tempfile.TemporaryDirectory() as folder:
        _compile_graphs(Path(folder))
    _compile_simulations()


def _compile_graphs(folder: Path) -> None:
    """Compile what reads, generates and evaluates link graphs."""
    from crawlprio.graph.linkgraph import LinkGraph
    from crawlprio.graph.npz import write_npz
    from crawlprio.graph.synthetic import synthetic_web, twin
    from crawlprio.measure.crawl_models import BacklinksSeen, limited_buffer, pagerank_seen
    from crawlprio.measure.crawl_order import depth_from_seeds
    from crawlprio.measure.importance import importance_of
    from crawlprio.store.graph_files import read_graph

    (folder / "edges.txt").write_text(
        "".join(f"{page} {page + 1}\n{page} 0\n" for page in range(9))
    )
    graph = read_graph(folder / "edges.txt")
    (folder / "one.graph").write_bytes(b"\x80")
    (folder / "one.properties").write_text("nodes=1\narcs=0\n")
    read_graph(folder / "one.graph")
    urls = [f"http://a.example/{page}" for page in range(graph.n_pages)]
    sites = np.arange(graph.n_pages, dtype=np.int32) % 2
    write_npz(LinkGraph(graph.indptr, graph.indices, sites, urls), folder / "graph.npz")
    graph = read_graph(folder / "graph.npz")
    graph.in_links(0)
    for importance in ("cho-pagerank", "remote-pagerank", "backlinks", "harmonic", "hubs"):
        importance_of(graph, importance)
    twin(synthetic_web(60, 3))
    order = np.arange(graph.n_pages, dtype=np.int32)
    depth_from_seeds(graph, [0])
    values = pagerank_seen(graph, order)
    limited_buffer(order, values, [0.5], BacklinksSeen(graph))


def _compile_simulations() -> None:
    """Compile the crawl simulator, with and without a clock."""
    from crawlprio.show.simulation_results import compile_kernels

    compile_kernels(ORDERINGS.values())
    compile_kernels(ORDERINGS.values(), in_time=True)
