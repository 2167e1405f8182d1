"""The demo web and recorded webs, served on loopback so that the real engine crawls known pages.

The package is not needed to crawl the real web, and it never connects beyond loopback.
"""
