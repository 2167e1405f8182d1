"""What `crawlprio certify` proves holds in 95 of 100 draws, on a web of each kind that rules make.

Each web is crawled and walked by the commands. Then walks are drawn anew from what these fetched,
`N_DRAWS` times: 20, or as many as CRAWLPRIO_TEST_DRAWS says (200: the figures of docs/coverage.md;
with `-s`, they are printed).
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from crawls import Answer, Site
from forked import run_forked
from oracles.coverage import trusted_pagerank
from stores import query

from crawlprio.measure.walk_verification import WalkEvidence, WalkVerification
from crawlprio.web.scope import Scope
from crawlprio.web.urls import canonical

N_DRAWS = int(os.environ.get("CRAWLPRIO_TEST_DRAWS", "20"))
N_PAGES = 160
N_WALKS = 200


def graph(seed):
    """A web whose later half links mostly to itself, so that a crawl knows little of it."""
    web = {}
    for number in range(N_PAGES):
        random = Random(f"{seed} {number}")
        near = range(number + 1, min(number + 4, N_PAGES))
        begin = 0 if number < N_PAGES // 2 else N_PAGES // 2
        others = random.sample(range(begin, N_PAGES), 3)
        home = [0] if number % 4 == 1 and number < N_PAGES // 2 else []
        web[number] = [other for other in {*near, *others, *home} if other != number]
    return web


@dataclass
class WebCase:
    """A web by the URLs of its pages and rules that a crawl of it has; `blocks` are the answers
    that the walker gets instead, `words` the options of the crawl.
    """

    name: str
    words: tuple[str, ...] = ()
    url: Callable[[int], str] = lambda number: f"/p/{number}" if number else "/"
    is_nofollow: Callable[[int, int], bool] = lambda source, target: False
    deepest: Callable[[int], float] = lambda number: float("inf")
    blocks: dict[str, Answer] = field(default_factory=dict)
    from_page: int = 0
    moves_seed: bool = False
    is_bounded: bool = False
    n_pages: int = 40


def _login(links='<a href="/">home</a>'):
    return Answer(f"<title>log in</title>{links}", headers={"Content-Type": "text/html"})


FORBIDDEN = {"/robots.txt": Answer("User-agent: *\nDisallow: /p/\n")}
LATE = {"/robots.txt": Answer("User-agent: *\nDisallow: /p/1\nDisallow: /p/9\n")}
HALF = N_PAGES // 2

KINDS = [
    WebCase("no rule"),
    WebCase("a waiting seed that redirects", ("--ordering", "depth-first"), moves_seed=True),
    WebCase(
        "dynamic URLs",
        ("-s", "CRAWLPRIO_MAX_DYNAMIC_DEPTH=3"),
        url=lambda n: "/" if not n else f"/p?n={n}" if n % 3 else f"/p/{n}",
        deepest=lambda n: 3 if n % 3 else 15,
    ),
    WebCase("DEPTH_LIMIT", ("-s", "DEPTH_LIMIT=4"), deepest=lambda n: 4),
    WebCase(
        "DEPTH_LIMIT, breadth-first",
        ("-s", "DEPTH_LIMIT=3", "--ordering", "breadth-first"),
        deepest=lambda n: 3,
    ),
    WebCase("nofollow", is_nofollow=lambda source, target: (source + target) % 3 == 0),
    WebCase("a site budget", ("-s", "CRAWLPRIO_MAX_PAGES_PER_SITE=90"), is_bounded=True),
    *(
        WebCase(f"{status} to the walker", blocks={"": Answer("no", status)})
        for status in (401, 403)
    ),
    *(
        WebCase(f"{status} to the walker", blocks={"": Answer("no", status)})
        for status in (407, 451)
    ),
    WebCase("403 on later pages", blocks={"": Answer("no", 403)}, from_page=HALF),
    WebCase("401 after one request", blocks={"": Answer("no", 401)}, n_pages=1),
    WebCase("a login page", blocks={"": _login(), "/login": _login()}),
    WebCase("a login page on later pages", blocks={"": _login()}, from_page=HALF),
    WebCase(
        "redirects to a login page",
        blocks={"": Answer("", 302, {"Location": "/login"}), "/login": _login()},
    ),
    WebCase(
        "redirects to a login page on later pages",
        blocks={"": Answer("", 302, {"Location": "/login"}), "/login": _login()},
        from_page=HALF,
    ),
    WebCase("no links to the walker", blocks={"": _login("")}),
    WebCase("no links on later pages", blocks={"": _login("")}, from_page=HALF),
    WebCase("robots.txt forbids what was crawled", blocks=FORBIDDEN),
    WebCase("robots.txt forbids later pages", blocks=LATE),
]


class Served(Site):
    """A web of a kind; once `is_walked`, with the answers that the walker gets."""

    is_walked = False

    def __init__(self, kind):
        super().__init__({})
        self.kind, self.web = kind, graph(kind.name)

    def url(self, number):
        host = self.address
        if self.kind.moves_seed and number >= HALF:
            host = host.replace("127.0.0.1", "localhost")
        return f"http://{host}{self.kind.url(number)}"

    def answer_to(self, fetch):
        path, blocks = fetch.path, self.kind.blocks if self.is_walked else {}
        if path in blocks:
            return blocks[path]
        if path == "/robots.txt":
            return Answer("", 404)
        if path == "/moved":
            return Answer("", 301, {"Location": self.url(HALF)})
        number = int(path.replace("=", "/").rpartition("/")[2] or 0)
        if "" in blocks and number >= self.kind.from_page:
            return blocks[""]
        links = "".join(
            f'<a href="{self.url(other)}"'
            f"{' rel=nofollow' if self.kind.is_nofollow(number, other) else ''}>{other}</a>"
            for other in self.web[number]
        )
        return Answer(f"<title>{number}</title>{links}", headers={"Content-Type": "text/html"})

    def rows(self):
        """The links that the rules follow from each page; -1 is the seed that redirects."""
        rows = {}
        ahead, depths = [0], {0: 0}
        if self.kind.moves_seed:
            rows[-1], depths[HALF] = [HALF], 0
            ahead.append(HALF)
        for number in ahead:
            rows[number] = [
                other
                for other in self.web[number]
                if not self.kind.is_nofollow(number, other)
                and depths[number] + 1 <= self.kind.deepest(other)
            ]
            for other in rows[number]:
                if other not in depths:
                    depths[other] = depths[number] + 1
                    ahead.append(other)
        return rows


def share(rows, got):
    ranks = trusted_pagerank(rows, [0, -1] if -1 in rows else [0])
    return sum(rank for number, rank in ranks.items() if number in got)


def pages_of(store, where):
    rows = query(store, f"SELECT url FROM pages WHERE {where}")
    return {
        -1 if url.endswith("/moved") else int(url.replace("=", "/").rpartition("/")[2] or 0)
        for (url,) in rows
    }


def truths(site, store):
    """The share that was got; where a budget binds, with and without the pages that it refused."""
    got = pages_of(store, "id IN (SELECT page FROM visits WHERE status BETWEEN 200 AND 399)")
    rows = site.rows()
    if not site.kind.is_bounded:
        return [share(rows, got)]
    known = pages_of(store, "1")
    bounded = {n: [other for other in rows[n] if other in known] for n in rows if n in known}
    return [share(rows, got), share(bounded, got)]


def run(words, folder):
    done = run_forked("crawlprio", words, folder)
    return done.returncode, done.stdout, done.stderr


def draws(kind, site, store):
    """The intervals of `N_DRAWS` draws from what was fetched; none where nothing is certified."""
    evidence = WalkEvidence(store.with_name("crawl.walks.jsonl"), created(store))
    evidence.close()
    found = []
    for number in range(N_DRAWS):
        seeds = [site.url(0)]
        if kind.moves_seed:
            seeds.append(f"http://{site.address}/moved")
        dynamic = next((int(w[-1]) for w in kind.words if "DYNAMIC" in w), 5)
        limit = next((int(w[-1]) for w in kind.words if "DEPTH_LIMIT" in w), 0)
        scope = Scope(seeds, max_dynamic_depth=dynamic)
        judged = WalkVerification(store, scope, limit, canonical, answers=evidence.found)
        walks = judged.walks(N_WALKS, f"draw {number}")
        judged.advance(walks, walks.wanted)
        if not judged.bias():
            certificate = walks.certificate()
            found.append((certificate.at_least, certificate.at_most))
    return found


def created(store):
    return str(query(store, "SELECT value FROM meta WHERE key = 'created'")[0][0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_certificates_hold_on_a_web_of_each_kind(kind, tmp_path):
    from scipy.stats import binom  # takes a second, which each process of a run would pay

    with Served(kind) as site:
        seeds = [site.url(0)] + [f"http://{site.address}/moved"] * kind.moves_seed
        words = ["--folder", "job", "--delay", "0", "--pages", str(kind.n_pages), *kind.words]
        status, _, told = run(["crawl", *seeds, *words], tmp_path)
        assert status == 0, told
        store = tmp_path / "job" / "crawl.sqlite"
        site.is_walked = True
        status, shown, told = run(
            ["certify", "job", "--delay", "0", "--walks", "1000", "--json"], tmp_path
        )
        shares = truths(site, store)
    assert status in (0, 1), told
    is_wrong = False
    if status == 0:  # one more draw, of which one in twenty may be wrong
        proved = json.loads(shown)
        is_wrong = any(proved["at_least"] > truth + 1e-3 for truth in shares)
    else:
        assert told.endswith("so nothing is certified.\n")
    found = draws(kind, site, store)
    low = is_wrong + sum(any(least > truth + 1e-9 for truth in shares) for least, _ in found)
    high = sum(any(most < truth - 1e-6 for truth in shares) for _, most in found)
    least = [f"{sum(part) / len(found):.3f}" for part in zip(*found, strict=True)] if found else []
    live = "certified" if status == 0 else told.partition(": ")[2].strip()
    print(
        f"| {kind.name} | {' / '.join(f'{truth:.3f}' for truth in shares)} | {' to '.join(least)} "
        f"| {len(found)} | {low} | {high} | {live} |"
    )
    most_wrong = int(binom.ppf(0.9999, N_DRAWS, 0.05)) if N_DRAWS < 200 else N_DRAWS // 20
    assert low <= most_wrong
    assert high <= most_wrong
