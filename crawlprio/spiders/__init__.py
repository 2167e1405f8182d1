"""The spiders that come with crawlprio; the only one is `site`."""
