"""The receipt of a crawl: what was asked, got, refused and missed, from its store alone."""
