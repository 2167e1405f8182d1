"""The demo web and recorded webs, served on loopback so that the real engine crawls known pages.

Nothing here is needed to crawl the real web, and nothing here ever connects beyond loopback.
"""
