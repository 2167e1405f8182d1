"""The notice before a crawl that says where an earlier store went."""

import logging

from crawls import ADDON, Site, page, run_spider
from scrapy import Spider

from crawlprio.store import Store


def test_an_earlier_crawls_store_is_kept_and_the_log_names_it(tmp_path):
    class Once(Spider):
        name = "once"
        start_urls = ("http://a.test/",)

        def parse(self, response):
            yield {"url": response.url}

    path = tmp_path / "crawl.sqlite"
    settings = {**ADDON, "CRAWLPRIO_STORE": str(path)}
    with Site({"/": page()}) as site:
        first, second = (run_spider(Once, settings, site=site) for _ in range(2))
    assert [text for text in first.messages(logging.INFO) if "it was renamed to" in text] == []
    (text,) = (text for text in second.messages(logging.INFO) if "it was renamed to" in text)
    (kept,) = (file for file in tmp_path.glob("crawl*.sqlite") if file != path)
    assert text == f"{path} already existed; it was renamed to {kept}."
    for file in (path, kept):
        with Store.open(file) as store:
            assert store.n_pages == 1
