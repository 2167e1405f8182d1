"""What a URL and a page are: URLs, HTML, scope, traps, budgets, addresses. No Scrapy."""
