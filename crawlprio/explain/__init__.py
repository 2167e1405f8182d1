"""Why a crawl fetched a page, or did not: from its store alone, without Scrapy."""
