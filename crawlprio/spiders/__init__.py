"""Spiders that crawlprio brings along; the only one is `site`."""
