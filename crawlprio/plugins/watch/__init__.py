"""Watching a crawl while it runs, and acting on it, in a browser."""
