"""The report of a crawl: one HTML page for people, which needs no network."""
