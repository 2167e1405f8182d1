"""URLs, HTML, scope, traps, budgets and addresses, independent of Scrapy."""
