"""A web to crawl and the record of a crawl; independent of orderings."""

from dataclasses import dataclass, field


@dataclass
class Web:
    """A whole web, as only the oracle sees it.

    Parameters
    ----------
    links
        The raw links of each page, in page order, with self-links and duplicates as they come. A
        page that is missing here has none (or could not be fetched).
    site
        The site of each page; 0 where missing.
    urls, titles, bodies
        Texts of each page; empty where missing.
    anchors
        Anchor text of the link (source, target); empty where missing.
    """

    links: dict[int, list[int]]
    site: dict[int, int] = field(default_factory=dict)
    urls: dict[int, str] = field(default_factory=dict)
    anchors: dict[tuple[int, int], str] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    bodies: dict[int, str] = field(default_factory=dict)

    @property
    def pages(self):
        """Every page, fetched or not, in order of its number."""
        targets = {v for row in self.links.values() for v in row}
        return sorted(targets | set(self.links) | set(self.site) | set(self.urls))

    def links_of(self, page):
        """Return the distinct links of a page in page order, without the page itself."""
        return [v for v in dict.fromkeys(self.links.get(page, [])) if v != page]

    def out_degree(self, page):
        """Return o(u), the number of distinct links of a page."""
        return len(self.links_of(page))

    def reachable(self, seeds):
        """Return the pages reachable from the seeds, the seeds included."""
        reached = set()
        ahead = list(seeds)
        while ahead:
            page = ahead.pop()
            if page not in reached:
                reached.add(page)
                ahead += self.links_of(page)
        return reached


@dataclass
class Record:
    """What a crawler has seen: the data structures of Cho et al. (WWW7, 1998), Fig. 1, 4 and 5.

    Both queues keep order of discovery. `discovered` lists every known page in that order. `parent`
    is the page in which each was first found (seeds have none), and `found_after` the number of
    pages visited by then, the discovering page included. `backlinks` is `links` reversed.
    `site_share`: pages of a site in each round; None without rounds.
    """

    web: Web
    seeds: list[int]
    url_queue: list[int] = field(default_factory=list)
    hot_queue: list[int] = field(default_factory=list)
    crawled_pages: list[int] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    backlinks: dict[int, list[int]] = field(default_factory=dict)
    hot: set[int] = field(default_factory=set)
    discovered: list[int] = field(default_factory=list)
    parent: dict[int, int] = field(default_factory=dict)
    found_after: dict[int, int] = field(default_factory=dict)
    site_share: int | None = None

    def waiting(self):
        """Return the pages of both queues in order of discovery."""
        done = set(self.crawled_pages)
        return [u for u in self.discovered if u not in done]

    def discover(self, page, queue):
        """Append a page seen for the first time to one of the two queues."""
        queue.append(page)
        self.discovered.append(page)
        self.found_after[page] = len(self.crawled_pages)
        self.backlinks.setdefault(page, [])

    def record_link(self, source, target):
        """Record the pair (source, target), seen in the fetched page `source`."""
        self.links.append((source, target))
        self.backlinks.setdefault(target, []).append(source)

    def distance_from_hotpage(self, page):
        """Return the fewest recorded links from a hot page to `page`, or infinity without a path.

        Cho et al., Fig. 5, which spells it out up to 2.
        """
        distance = 0
        reached = set()
        layer = {page}
        while layer:
            if layer & self.hot:
                return distance
            reached |= layer
            layer = {v for w in layer for v in self.backlinks.get(w, [])} - reached
            distance += 1
        return float("inf")
