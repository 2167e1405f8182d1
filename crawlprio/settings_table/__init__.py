"""Every setting that crawlprio reads, its kind of values, and the configuration of a crawl."""
