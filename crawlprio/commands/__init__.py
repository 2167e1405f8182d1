"""The commands that crawlprio adds to `scrapy`; each is thin and imports the core."""
