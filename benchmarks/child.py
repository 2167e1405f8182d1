"""Runs one crawl in this process and prints its figures.

`harness.py` starts it and describes the crawl in a line of JSON on standard input.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict

from harness import Crawl, Figures
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from synthetic_web import Clock


def run(crawl: Crawl) -> Figures:
    """Crawl once; a process can do this only once.

    Raises
    ------
    RuntimeError
        if the crawl logged an error or ended before it had fetched all its pages.
    """
    settings = Settings()
    if crawl.is_bundled:
        settings.setmodule("crawlprio.settings", priority="project")
    settings.setdict(crawl.settings, priority="cmdline")
    settings.set("CLOSESPIDER_PAGECOUNT", crawl.n_pages, "cmdline")
    Clock.n_wanted = crawl.n_pages
    process = AsyncCrawlerProcess(settings)
    spider = crawl.spider if "." not in crawl.spider else load_object(crawl.spider)
    crawler = process.create_crawler(spider)
    process.crawl(crawler, **crawl.arguments)
    process.start()
    assert crawler.stats is not None
    # Scrapy logs an error for a page that keeps failing, and the demo web has such pages.
    n_given_up = 0 if crawl.is_bundled else crawler.stats.get_value("retry/max_reached", 0)
    n_errors = crawler.stats.get_value("log_count/ERROR", 0) - n_given_up
    if n_errors or not Clock.ended:
        raise RuntimeError(
            f"{crawl.label}: {n_errors} errors logged, {Clock.n_answers} of {crawl.n_pages} pages."
        )
    return Figures(
        n_pages=crawl.n_pages,
        seconds=Clock.ended - Clock.started,
        cpu_seconds=Clock.cpu_ended - Clock.cpu_started,
        n_enqueued=crawler.stats.get_value("scheduler/enqueued", 0),
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(run(Crawl(**json.load(sys.stdin))))))
