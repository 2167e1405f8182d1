"""A part of a crawl, as somebody may write it, that records a fact of each page of its own."""

from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.store.side_tables import SideTable

CANONICAL = SideTable.of_visits("canonical_links", "canonical TEXT NOT NULL, n INTEGER NOT NULL")


class CanonicalLinks(CrawlPart):
    """Records the `<link rel=canonical>` of each page, and how many elements say so."""

    tables = (CANONICAL,)

    def __init__(self, crawl):
        super().__init__(crawl)
        self.seen = []

    def visited(self, visit):
        self.seen.append(visit.extras.get(CANONICAL.name))

    def read(self, pairs, response, page):
        found = response.css("link[rel=canonical]::attr(href)").getall()
        if found:
            pairs.extras[CANONICAL.name] = (response.urljoin(found[0]), len(found))


class RecordsCanonicalLinks:
    """An extension of Scrapy that adds the part to a crawl."""

    @classmethod
    def from_crawler(cls, crawler):
        crawl = CrawlContext.of(crawler)
        cls.part = CanonicalLinks(crawl)
        crawl.parts.add(cls.part)
        return cls()
