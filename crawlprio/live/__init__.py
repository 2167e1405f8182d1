"""One live crawl and its parts, between Scrapy and the core."""
