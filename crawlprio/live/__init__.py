"""A live crawl and its parts: the layer between Scrapy and the core."""
