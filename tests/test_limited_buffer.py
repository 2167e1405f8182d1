"""A crawl with a limited buffer keeps the pages that the definition of Cho et al. leaves in it."""

import random

import pytest
from crawls import ADDON, ONE_AT_A_TIME, Answer, Site, killed_once, options, run_spider
from forked import run_forked
from oracles import evaluation as oracle
from stores import query

from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

HTML = {"Content-Type": "text/html"}


def random_web(seed, n_pages=60):
    """Pages that link to a few others, mostly to those of low numbers; one is missing."""
    choose = random.Random(seed)
    web = {}
    for page in range(n_pages):
        few = {min(choose.randrange(n_pages), choose.randrange(n_pages)) for _ in range(4)}
        links = "".join(f'<a href="/{target}">page {target}</a>' for target in {*few, page + 1})
        web[f"/{page}"] = Answer(f"<title>{page}</title>This is page {page}. {links}", 200, HTML)
    return web


def expected(store, size):
    """Return the URLs that the buffer of the paper holds, by the visits that a store has."""
    with Store.open(store, readonly=True) as opened:
        visits = [visit for visit in opened.visits() if visit.page >= 0]
        urls = list(opened.page_urls())
    links = {page: set() for page in range(len(urls))}
    for visit in visits:
        links[visit.page] = set(visit.targets.tolist())
    got = [visit.page for visit in visits if visit.status]
    fetched = [visit.page for visit in visits]
    seen = oracle.backlinks_seen(links)

    def estimate(of_buffer, page):
        return seen(fetched[: fetched.index(of_buffer[-1]) + 1], page)

    return {urls[page] for page in oracle.buffer_after(got, size, estimate)}


def kept(store, what="bodies"):
    """Return the URLs of the pages whose body or text a store has."""
    has = "seq IN (SELECT visit FROM bodies)" if what == "bodies" else "text IS NOT NULL"
    found = query(store, f"SELECT url FROM visits JOIN pages ON pages.id = page WHERE {has}")
    return {url for (url,) in found}


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_crawl_keeps_the_bodies_that_the_definition_leaves_in_its_buffer(path, size):
    settings = {
        **ADDON, **ONE_AT_A_TIME, "ORDERING": "backlink-count", "CRAWLPRIO_STORE": str(path),
        "CRAWLPRIO_BODIES": True, "CRAWLPRIO_BUFFER": size,
    }  # fmt: skip
    run_spider(SiteSpider, settings, site=random_web(1), seeds="http://a.test/0")
    assert len(kept(path)) == min(size, 61)
    assert kept(path) == expected(path, size)


@pytest.mark.slow
def test_a_crawl_that_is_killed_and_resumed_keeps_the_same_texts(tmp_path):
    store = tmp_path / "job" / "crawl.sqlite"
    handler = "crawlprio.demo.handler.LoopbackHandler"
    with Site(random_web(2)) as site:
        words = [
            *("crawl", "http://a.test/0", "--folder", str(tmp_path / "job")),
            *("--keep-text", "--ordering", "breadth-first"),
            *("--at-once", "1", "--delay", "0"),
            *options(
                {
                    "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
                    "CRAWLPRIO_LOOPBACK": site.address,
                    "CRAWLPRIO_BUFFER": 5,
                    "CRAWLPRIO_COMPILE": False,
                }
            ),
        ]
        for n_more in (15, 20):
            killed_once("crawlprio", words, store, n_more)
        ended = run_forked("crawlprio", words, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert kept(store, "texts") == expected(store, 5)
    assert query(store, "SELECT count(*) FROM text_notes") == [(5,)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "CRAWLPRIO_BUFFER is 5, but this crawl keeps nothing that it could drop; set"),
        ({"CRAWLPRIO_KEEP_TEXT": True, "TOPIC": "dogs"}, "needs all texts to resume; leave one"),
        ({"CRAWLPRIO_BODIES": True, "CRAWLPRIO_BUFFER": 0}, "CRAWLPRIO_BUFFER is '0'; give"),
    ],
)  # fmt: skip
def test_a_buffer_that_cannot_be_kept_is_refused(tmp_path, given, told):
    settings = {"CRAWLPRIO_BUFFER": 5, **given}
    words = ["crawl", "http://a.test/", "--folder", str(tmp_path / "job"), *options(settings)]
    ended = run_forked("crawlprio", words, tmp_path)
    assert ended.returncode == 2
    assert told in ended.stderr
    assert not list(tmp_path.rglob("*.sqlite"))
