"""Crawling again: which pages to fetch again first, what counts as a change, and what changed."""
