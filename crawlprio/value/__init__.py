"""Value models: what the text of a page is worth to a crawl, from 0 to 1."""

from crawlprio.value.base import Page, ScoredModel, ValueModel, ValueModelError, page_of

__all__ = ["Page", "ScoredModel", "ValueModel", "ValueModelError", "page_of"]
