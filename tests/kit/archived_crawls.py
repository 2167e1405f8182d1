"""A small site, crawled into an archive."""

import scrapy
from crawls import PROJECT, Answer, job_in, page, run_spider

from crawlprio.spiders.site import SiteSpider

HOST = "http://a.example/"

WEB = {
    "/robots.txt": Answer("User-agent: *\nDisallow: /secret\n"),
    "/": page("/old", "/same", "/copy", "/lost", "/secret", title="home"),
    "/old": Answer("moved", status=301, headers={"Location": "/new?a=1"}),
    "/new?a=1": page("/"),
    "/same": page(title="same"),
    "/copy": page(title="same"),
    "/lost": Answer("not here", status=404),
}


def crawl(folder, web=WEB, **settings):
    """Crawl a site with the bundled project, in one job, archived; or resume that."""
    every = {
        **PROJECT,
        "CONCURRENT_REQUESTS": 1,
        **job_in(folder / "job"),
        "CRAWLPRIO_WARC": str(folder / "warc"),
        "CRAWLPRIO_PRIVATE_ADDRESSES": "allow",
        **settings,
    }
    return run_spider(SiteSpider, every, site=web, seeds=HOST)


def store_of(folder):
    return folder / "job" / "crawl.sqlite"


class OneRetry(scrapy.Spider):
    name = "retry"

    async def start(self):
        secrets = ("Authorization", "X-Api-Key", "x-auth-token", "Cookie")
        headers = dict.fromkeys(secrets, "secret") | {"X-Other": "kept"}
        yield scrapy.Request(HOST, headers=headers)

    def parse(self, response):
        yield from ()
