"""The live view: a page on loopback that shows a running crawl and takes orders for it.

Nothing here is imported unless CRAWLPRIO_MONITOR is set.
"""
