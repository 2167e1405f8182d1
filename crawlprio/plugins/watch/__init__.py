"""Watching a crawl while it runs, and auditing the sites it crawled."""
