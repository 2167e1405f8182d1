"""The demo web: a synthetic web of any size, generated from a seed.

`crawlprio.graph.synthetic` grows the links. A page that it leaves without links is a leaf, on
which no other page depends, so that any leaf may become something else.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.demo import Answer, html_answer, text_answer
from crawlprio.errors import ConfigError
from crawlprio.graph.linkgraph import LinkGraph, gathered_rows, links_of
from crawlprio.graph.synthetic import synthetic_web

_WORDS = {
    "astronomy": "nebula orbit telescope galaxy comet planet eclipse quasar pulsar asteroid "
    "supernova spectrum parallax redshift corona lunar",
    "baking": "sourdough yeast oven flour crust pastry dough brioche whisk glaze custard rye "
    "kneading cinnamon sponge loaf",
    "sailing": "rudder mast regatta keel harbour tide anchor spinnaker jib buoy helm windward "
    "skipper mooring dinghy halyard",
    "gardening": "compost seedling orchard trellis mulch pruning perennial greenhouse bulb hedge "
    "watering lawn tomato graft soil bloom",
    "statistics": "variance regression sample median likelihood estimator quantile bootstrap "
    "prior correlation residual histogram outlier covariate binomial skewness",
    "music": "violin sonata rhythm choir cadence melody fugue tempo orchestra chord octave "
    "libretto clarinet overture harmony quartet",
    "geology": "basalt fault sediment quartz glacier magma fossil strata mineral erosion granite "
    "tectonic crystal volcano limestone seismic",
    "chess": "gambit bishop endgame castling knight zugzwang opening rook checkmate pawn "
    "fianchetto middlegame sacrifice blunder stalemate queen",
    "cycling": "derailleur peloton saddle sprint pedal velodrome climb handlebar breakaway crank "
    "spoke commuter gravel stage puncture brake",
    "printing": "typeface kerning serif ink press letterpress margin glyph engraving lithograph "
    "folio binding woodcut ligature paper baseline",
    "medicine": "vaccine diagnosis artery surgeon dosage immunity clinic symptom therapy virus "
    "antibody fever patient nursing biopsy insulin",
    "robotics": "actuator gripper sensor servo controller kinematics lidar torque odometry "
    "encoder planner firmware joint calibration swarm chassis",
}

VOCABULARY: dict[str, tuple[str, ...]] = {t: tuple(words.split()) for t, words in _WORDS.items()}
"""The 16 words of each topic; no word belongs to two topics."""

TOPICS: tuple[str, ...] = tuple(VOCABULARY)

_PATTERNS = (
    "Every {topic} notebook should begin with the {0} and the {1}.",
    "A {0} without a {1} is only half of {topic}.",
    "We compared the {0} with the {1} and kept the {2}.",
    "Readers often ask how the {0} changes a {1}.",
    "The second chapter follows one {0} from the {1} to the {2}.",
    "Nobody who knows {topic} would leave out the {0}.",
    "Between the {0} and the {1} there is always a {2}.",
    "Last year the {0} came late, and the {1} suffered for it.",
)


def sentences(topic: str, n: int, seed: int) -> list[str]:
    """Return `n` sentences on a topic; the same seed gives the same sentences."""
    draw = random.Random(f"{seed}/{topic}")
    words = VOCABULARY[topic]
    return [draw.choice(_PATTERNS).format(*draw.sample(words, 3), topic=topic) for _ in range(n)]


Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

PLAIN, DANGLING, DUPLICATE, MOVED, FOUND, MISSING, BROKEN = range(7)
"""Kinds of page: with links, without links, a copy of another page, 301, 302, 404, 500."""

_SHARES = {
    DANGLING: 0.08,
    DUPLICATE: 0.04,
    MOVED: 0.012,
    FOUND: 0.008,
    MISSING: 0.015,
    BROKEN: 0.003,
}
_PRIVATE_SITES = 0.12
"""Share of the sites that forbid some leaves to robots, and share of their leaves."""


@dataclass(frozen=True)
class Structure:
    """Pages grouped by site, where page 0 is the portal's home page, and their links.

    `starts` has the first page of each site, its home page, and then the number of pages. Of each
    page, `kind` is one of the kinds above, `private` says whether robots.txt forbids it, and
    `source` is the page with the original body: itself, or a duplicate's original.
    """

    graph: LinkGraph
    starts: Ints
    kind: NDArray[np.uint8]
    private: Mask
    source: Ints


def synthesise(n_pages: int, n_sites: int, seed: int, rng: np.random.Generator) -> Structure:
    """Return a web in which every page is reachable from page 0, even without private pages.

    A home page that is linked from its own site alone gets a link from a page of an earlier site.
    Cost: O(n_links) time.
    """
    grown = synthetic_web(
        n_pages,
        n_sites,
        share_between_sites=0.18,
        dangling=sum(_SHARES.values()),
        max_pages_per_site=max(n_pages // 8, 2 * -(-n_pages // n_sites)),
        seed=seed,
    )
    sizes = np.bincount(grown.site, minlength=n_sites)
    portal = int(np.argmax(sizes))
    before = int(sizes[:portal].sum())
    # The largest site comes first: pages and sites are numbered from it on, all the way round.
    sizes = np.roll(sizes, -portal)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    site = np.repeat(np.arange(n_sites), sizes)
    degrees = np.diff(grown.indptr)
    sources = (np.repeat(np.arange(n_pages), degrees) - before) % n_pages
    targets = (grown.indices - before) % n_pages
    is_leaf = np.roll(degrees == 0, -before)
    is_leaf[starts[:-1]] = False

    page = np.arange(n_pages)
    kind = np.full(n_pages, PLAIN, dtype=np.uint8)
    shares = np.array(list(_SHARES.values()))
    kind[is_leaf] = rng.choice(list(_SHARES), int(is_leaf.sum()), p=shares / shares.sum())
    last_plain = np.maximum.accumulate(np.where(is_leaf, 0, page))
    near = page - ((page - starts[site]) * rng.random(n_pages) ** 2).astype(np.int64)
    source = np.where(kind == DUPLICATE, last_plain[near], page)

    children = np.arange(1, n_sites)
    parents = (children * rng.random(len(children)) ** 3).astype(np.int64)
    reach = (sizes[parents] * rng.random(len(children)) ** 3).astype(np.int64)
    moved = np.flatnonzero((kind == MOVED) | (kind == FOUND))
    pairs = (
        (sources, targets),
        (last_plain[starts[parents] + reach], starts[children]),
        (moved, _redirect_targets(moved, site, starts, last_plain, rng)),
    )
    indptr, indices = gathered_rows(
        np.concatenate([one for one, _ in pairs]).astype(np.int32),
        np.concatenate([other for _, other in pairs]).astype(np.int32),
        n_pages,
    )
    private = is_leaf & (rng.random(n_sites) < _PRIVATE_SITES)[site]
    # The row of each page is that of its source.
    ends = np.concatenate(([0], np.cumsum(np.diff(indptr)[source])))
    copied = indices[links_of(indptr, source)]
    graph = LinkGraph.cleaned(ends, copied, site=site.astype(np.int32), in_place=True)
    return Structure(graph, starts, kind, private, source)


def _redirect_targets(
    moved: Ints, site: Ints, starts: Ints, last_plain: Ints, rng: np.random.Generator
) -> Ints:
    """Draw the target of each redirect: a page of the same site, a home page, another redirect.

    A chain leads from a redirect to the one before it; the last two redirects form a loop.
    """
    n = len(moved)
    where = site[moved]
    size = starts[where + 1] - starts[where]
    inside = last_plain[starts[where] + (size * rng.random(n)).astype(np.int64)]
    other = starts[((len(starts) - 1) * rng.random(n) ** 3).astype(np.int64)]
    target = np.where(rng.random(n) < 0.8, inside, other)
    chained = np.flatnonzero(rng.random(n) < 0.2)
    chained = chained[chained > 0]
    target[chained] = moved[chained - 1]
    if n >= 3:
        target[-1], target[-2] = moved[-2], moved[-1]
    return np.asarray(target, dtype=np.int64)


_STATUS = {MOVED: 301, FOUND: 302, MISSING: 404, BROKEN: 500}
_SUBDOMAINS = ("www", "shop", "blog", "docs", "news")
_N_SENTENCES = 64
_SECTION = 50
"""Number of pages in a folder of a site, which share a topic."""


class DemoWeb:
    """A reproducible synthetic web: the same seed gives the same web, with a known link graph.

    `crawlprio.graph.synthetic` generates sites and links: sizes and in-degrees follow power laws,
    and about 82 % of the links stay within their site. Every page is reachable from the portal's
    home page, `seeds[0]`, and every page that robots.txt allows is reachable through allowed pages.
    8 % of the pages have no links, 4 % are copies of another page, 2 % are redirects (some in
    chains, two in a loop), 1.8 % return 404 or 500, and 0.5 % are slow: they answer after a
    second. One page is the entrance to an endless calendar, whose further months are not
    pages of the graph. One site asks for a crawl delay (`crawl_delays`, seconds by host). A tenth
    of the sites use https.

    `indptr` and `indices` are the links of each page as recorded by a crawler that follows
    everything: distinct, without self-links, in the order of the HTML. A redirect has one link, its
    target; an error page has none; a duplicate has those of its original. `site`, `allowed` (by
    robots.txt) and `slow` are arrays over the pages. One million pages take about 3 s and 0.8 GB to
    generate, and 70 MB afterwards.
    """

    def __init__(self, n_pages: int = 20_000, n_sites: int = 200, seed: int = 0) -> None:
        if not 1 <= n_sites <= n_pages:
            raise ConfigError(
                f"A demo web of {n_pages} pages on {n_sites} sites cannot be made; "
                "give at least one site, and at least one page per site."
            )
        if n_pages >= 1 << 29 or seed < 0:
            raise ConfigError(
                f"A demo web of {n_pages} pages from seed {seed} cannot be made; give at most "
                "536,870,911 pages, and a seed of 0 or more."
            )
        rng = np.random.default_rng(seed)
        site_topics = rng.integers(len(TOPICS), size=n_sites)
        made = synthesise(n_pages, n_sites, seed, rng)
        graph = made.graph
        self.indptr, self.indices, self.site = graph.indptr, graph.indices, graph.site
        topics = np.where(
            rng.random(n_pages) < 0.7,
            site_topics[graph.site],
            rng.integers(len(TOPICS), size=n_pages),
        )
        topics[made.starts[:-1]] = site_topics
        home = made.starts[graph.site]
        section = home + (np.arange(n_pages) - home) // _SECTION * _SECTION
        plain = made.kind == PLAIN
        self.slow: NDArray[np.bool_] = plain & (rng.random(n_pages) < 0.005)
        self.allowed: NDArray[np.bool_] = ~made.private
        self._seed = seed
        self._kinds = made.kind.data
        self._sources = made.source.data
        self._sites = graph.site.data
        self._private = made.private.data
        self._topics = topics[section].astype(np.uint8).data
        self._starts: list[int] = made.starts.tolist()
        self._private_sites = frozenset(graph.site[made.private].tolist())
        self.hosts, self._schemes = _names(n_sites, rng)
        self._origins = [f"{s}://{h}" for s, h in zip(self._schemes, self.hosts, strict=True)]
        self._site_ids = {host: site for site, host in enumerate(self.hosts)}
        self._entrance = self._choose_entrance(plain)
        self.crawl_delays: dict[str, float] = {}
        if n_sites > 2:
            self.crawl_delays[self.hosts[n_sites // 2]] = 2.0
        self._sentences = [sentences(topic, _N_SENTENCES, seed) for topic in TOPICS]

    def __len__(self) -> int:
        return len(self.site)

    @property
    def seeds(self) -> list[str]:
        """The portal's home page, from which every page is reachable."""
        return [self.url(0)]

    def url(self, page: int) -> str:
        """Return the canonical URL of a page."""
        return self._origins[self._sites[page]] + self._path(page)

    def urls(self) -> list[str]:
        """Return the URLs of all pages. Cost: about 1.5 µs per page."""
        return [self.url(page) for page in range(len(self))]

    def graph(self) -> LinkGraph:
        """Return the links between all pages, with their URLs."""
        return LinkGraph(self.indptr, self.indices, self.site, self.urls())

    def page(self, url: str) -> int | None:
        """Return the page with this URL, or None. Cost: O(1), without a table of URLs."""
        scheme, host, path = _split(url)
        site = self._site_ids.get(host)
        if site is None or scheme != self._schemes[site]:
            return None
        return self._find(site, path)

    def status(self, page: int) -> int:
        """Return the HTTP status of a page: 200, 301, 302, 404 or 500."""
        return _STATUS.get(self._kinds[page], 200)

    def original(self, page: int) -> int:
        """Return the page with the original body: the page itself unless it is a duplicate."""
        return self._sources[page]

    def topic(self, page: int) -> str:
        """Return the topic of a page, one of `TOPICS`."""
        return TOPICS[self._topics[page]]

    def title(self, page: int) -> str:
        """Return the title of a page's body."""
        page = self._sources[page]
        topic = TOPICS[self._topics[page]]
        index = page - self._starts[self._sites[page]]
        if index == 0:
            return f"{self.hosts[self._sites[page]]}: {topic} and more"
        first, second = self._words(page)
        return f"{first.capitalize()} and {second}: {topic} note {index}"

    def answer(self, url: str) -> Answer:
        """Return the answer to a request for `url`. Cost: about 3 µs per link."""
        scheme, host, path = _split(url)
        site = self._site_ids.get(host)
        if site is None:
            return text_answer(404, f"There is no host {host} in this web.\n")
        if path == "/robots.txt":
            return text_answer(200, self._robots(site))
        if scheme != self._schemes[site]:
            return Answer(301, {"Location": self._origins[site] + path})
        page = self._find(site, path)
        if page is None:
            month = self._month(site, path)
            return html_answer(self._calendar(site, month)) if month else self._no_page(404)
        status = self.status(page)
        if status >= 400:
            return self._no_page(status)
        if status >= 300:
            target = int(self.indices[self.indptr[page]])
            return Answer(status, {"Location": self.url(target)})
        delay = 1.0 if self.slow[page] else 0.0
        return html_answer(self._html_of(self._sources[page]), delay)

    def _path(self, page: int) -> str:
        site = self._sites[page]
        index = page - self._starts[site]
        if index == 0:
            return "/"
        if page == self._entrance:
            return "/calendar?month=0"
        folder = f"/{TOPICS[self._topics[page]]}-{1 + index // _SECTION}/"
        if self._private[page]:
            folder = "/private/"
        return f"{folder}{self._words(page)[0]}-{index}.html"

    def _find(self, site: int, path: str) -> int | None:
        """Return the page at a path of a site, identified by the number in the path, or None."""
        if path == "/":
            return self._starts[site]
        if path == "/calendar?month=0":
            index = self._entrance - self._starts[site]
        else:
            digits = path.removesuffix(".html").rpartition("-")[2]
            if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
                return None
            index = int(digits)
        page = self._starts[site] + index
        if index < 0 or page >= self._starts[site + 1] or self._path(page) != path:
            return None
        return page

    def _words(self, page: int) -> tuple[str, str]:
        """Return two words of the page's topic, the same ones on every call."""
        words = VOCABULARY[TOPICS[self._topics[page]]]
        mixed = (page + self._seed) * 2654435761 & 0xFFFFFFFF
        first = mixed >> 12 & 15
        return words[first], words[(first + 1 + (mixed >> 17) % 15) & 15]

    def _anchor(self, page: int) -> str:
        page = self._sources[page]
        index = page - self._starts[self._sites[page]]
        if index == 0:
            return f"{TOPICS[self._topics[page]]} at {self.hosts[self._sites[page]]}"
        first, second = self._words(page)
        return f"{first} {second}" if page & 3 else f"{TOPICS[self._topics[page]]}: {first}"

    def _html_of(self, page: int) -> str:
        """Return the HTML of a page: some sentences on its topic, then its links in order."""
        site = self._sites[page]
        mixed = (page + self._seed) * 2246822519 & 0xFFFFFFFF
        about = self._sentences[self._topics[page]]
        text = [about[mixed >> shift & _N_SENTENCES - 1] for shift in (3, 9, 15, 21)]
        text.append(self._sentences[mixed % len(TOPICS)][mixed >> 5 & _N_SENTENCES - 1])
        items = []
        for target in self.indices[self.indptr[page] : self.indptr[page + 1]].tolist():
            there = self._sites[target]
            origin = "" if there == site else self._origins[there]
            items.append(
                f'<li><a href="{origin}{self._path(target)}">{self._anchor(target)}</a></li>'
            )
        if page == self._entrance:
            items.append('<li><a href="/calendar?month=1">next month</a></li>')
        footer = f'<a href="mailto:editor@{self.hosts[site]}">Write to us</a>'
        return _document(
            self.title(page),
            f'<p><a href="#links">Links</a></p>\n<p>{" ".join(text)}</p>\n'
            f'<ul id="links">\n{chr(10).join(items)}\n</ul>\n<p>{footer}</p>',
        )

    def _choose_entrance(self, plain: NDArray[np.bool_]) -> int:
        """Return a page of the first site after the portal with enough pages, or -1 if none has."""
        for site in range(1, len(self.hosts)):
            first = self._starts[site] + 1
            room = np.flatnonzero(plain[first : self._starts[site + 1]])
            if len(room) >= 20:
                return first + int(room[len(room) // 2])
        return -1

    def _month(self, site: int, path: str) -> int:
        """Return the month of a calendar path, or 0 for any other path."""
        number = path.removeprefix("/calendar?month=")
        if self._entrance < 0 or site != self._sites[self._entrance] or number == path:
            return 0
        return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0

    def _calendar(self, site: int, month: int) -> str:
        """Return the HTML of a month, with links to the previous and next month."""
        near = (("previous", month - 1), ("next", month + 1))
        links = "\n".join(
            f'<p><a href="/calendar?month={number}">{word} month</a></p>' for word, number in near
        )
        return _document(
            f"Month {month}", f'<p>Nothing on.</p>\n{links}\n<p><a href="/">Home</a></p>'
        )

    def _robots(self, site: int) -> str:
        lines = [
            "User-agent: *",
            "Disallow: /private/" if site in self._private_sites else "Disallow:",
        ]
        if delay := self.crawl_delays.get(self.hosts[site]):
            lines.append(f"Crawl-delay: {delay:g}")
        return "\n".join(lines) + "\n"

    def _no_page(self, status: int) -> Answer:
        return html_answer(
            _document("No page", "<p>There is nothing to read here.</p>"), status=status
        )


def _names(n_sites: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Return host names and schemes: most domains have one host, some up to five."""
    joins = (rng.random(n_sites) < 0.2).tolist()
    secure = (rng.random(n_sites) < 0.1).tolist()
    secure[0] = joins[0] = False
    hosts: list[str] = []
    domain = nth = 0
    for site in range(n_sites):
        nth = nth + 1 if joins[site] and nth + 1 < len(_SUBDOMAINS) else 0
        domain += nth == 0 and site > 0
        hosts.append(f"{_SUBDOMAINS[nth]}.site{domain}.example")
    return hosts, ["https" if s else "http" for s in secure]


def _split(url: str) -> tuple[str, str, str]:
    """Split a URL into scheme, host without default port, and path with query."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    host, slash, path = rest.partition("/")
    if not slash and "?" in host:
        host, _, query = host.partition("?")
        path = f"?{query}"
    host = host.lower().removesuffix(":443" if scheme == "https" else ":80")
    return scheme, host, f"/{path}"


def _document(title: str, body: str) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )
