"""Pages whose likes brought nothing new are put off, exactly as an oracle that looks at all."""

import random
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from commands import run_command
from crawls import ONE_AT_A_TIME, Answer, run_spider
from oracles import novelty as oracle
from spiders import Follower
from stores import change, visited_pages, visited_urls

from crawlprio.errors import ConfigError, StoreError
from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import make_ordering
from crawlprio.orderings.base import Ordering
from crawlprio.plugins.value.fingerprints import fingerprints
from crawlprio.plugins.value.novelty import Novelty
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

NEAR_BITS = (0, 1, 0b110, 0b111 << 40, 0b1111 << 20)


class Given(Ordering):
    """Keys that are given."""

    def __init__(self, keys):
        self._given = keys

    def discover(self, first, last, visit):
        for page in range(first, last):
            self.keys[page] = self._given[self.pages.url(page)]


def a_url(rng):
    """Return a URL of a small space, so that many differ in one piece."""
    host = rng.choice(["a.test", "a.test", "b.test"])
    path = "/".join(rng.choices(["", "x", "print", "v1", "v23", "ab12cd34e"], k=rng.randint(1, 4)))
    given = rng.sample(["sid=1", "sid=2", "sort=up", "p=3", "p=4"], k=rng.choice([0, 0, 1, 2]))
    query = f"?{'&'.join(given)}" if given else ""
    return f"http{rng.choice(['', '', 's'])}://{host}/{path}{query}"


def a_web(rng, n):
    urls = list(dict.fromkeys(a_url(rng) for _ in range(n)))
    links = {page: rng.sample(range(len(urls)), k=min(12, len(urls))) for page in range(len(urls))}
    texts = [rng.getrandbits(64) - 2**63 for _ in range(len(urls) // 4)]
    prints = [0 if rng.random() < 0.05 else rng.choice(texts) ^ rng.choice(NEAR_BITS) for _ in urls]
    return oracle.TextWeb(links, urls, prints)


def crawl(web, seeds, keys, novelty):
    """Return the pages in the order of the frontier."""
    table = PageTable()
    ids = {url: number for number, url in enumerate(web.urls)}

    def known(pages):
        found = []
        for page in dict.fromkeys(pages):
            url = web.urls[page]
            if table.find(url) == NO_PAGE:
                table.add(url, url, table.site("one"))
            found.append(table.find(url))
        return np.array(found, dtype=np.int32)

    queue = PageQueue(
        Given(dict(zip(web.urls, keys, strict=True))),
        table,
        demotion=novelty,
        plain_until=10_000,
    )
    queue.observe(Visit(NO_PAGE, known(seeds)))
    order = []
    while (page := queue.next_page(0.0)) != NO_PAGE:
        number = ids[table.url(page)]
        order.append(number)
        targets = known([target for target in web.links[number] if target != number])
        queue.observe(Visit(page, targets, extras={"fingerprints": (web.prints[number],)}))
        queue.release(page)
    return order


@pytest.mark.parametrize("kind", ["exact", "near"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_is_that_of_the_oracle(seed, kind):
    rng = random.Random(seed)
    web = a_web(rng, 120)
    keys = [float(rng.randrange(40)) for _ in web.urls]
    expected = oracle.Crawler(web, near=kind == "near").crawl([0, 1], keys)
    assert crawl(web, [0, 1], keys, Novelty(kind)) == expected
    assert len(expected) > 80


N_TEXTS = 40


def text_of(number):
    """Return sixty words that no other number has."""
    return " ".join(f"word{number * 60 + at}" for at in range(60))


def answer(host, path):
    """Return a page of a tree, or its view for printers; each links to its children and its view.

    The menu lists the links, so that no two bodies are equal.
    """
    name = path.rpartition("/")[2] or "0"
    if not name.isdigit() or int(name) >= N_TEXTS:
        return None
    number, is_printed = int(name), path.startswith("/print/")
    children = [child for child in range(3 * number + 1, 3 * number + 4) if child < N_TEXTS]
    links = [f"/print/{number}", *(f"/{child}" for child in children)]
    if is_printed:
        links = [f"/{number}"]
    menu = "".join(f"<a href='{link}'>{link}</a>" for link in links)
    return Answer(
        f"<title>{number}</title><nav>{menu}</nav><p>{text_of(number)}</p>",
        headers={"Content-Type": "text/html"},
    )


def live(store, spider=SiteSpider, **settings):
    given = {
        **ONE_AT_A_TIME,
        "ADDONS": {"crawlprio.Addon": 500},
        "ORDERING": "opic",
        "CRAWLPRIO_STORE": str(store),
        "CRAWLPRIO_NOVELTY": "exact",
        **settings,
    }
    arguments = {"seeds": "http://a.test/"} if spider is SiteSpider else {}
    run = run_spider(spider, given, site=({}, answer), **arguments)
    assert run.messages() == []
    return run


@pytest.mark.slow
def test_views_for_printers_come_last_live_as_simulated_and_resumed(path, tmp_path, capsys):
    run = live(path)
    fetched = visited_urls(path)
    first = fetched[: N_TEXTS + 8]
    assert len({url.rpartition("/")[2] or "0" for url in first}) == N_TEXTS
    assert run.stats["crawlprio/repeats_fetched"] == N_TEXTS + 1
    told = "51% of 81 pages; a.test/print/: 40, a.test/.../0: 1"  # the home page is also /0
    assert run.stats["crawlprio/most_repeats"] == told
    order = visited_pages(path)
    simulated = crawl_order(
        read_graph(path),
        [0],
        make_ordering("opic"),
        novelty=Novelty(),
        recorded=RecordedVisits(path, with_texts=False),
    )
    assert simulated.tolist() == order
    for n_pages in (9, 40, 0):
        job = {"JOBDIR": str(tmp_path / "job"), "CLOSESPIDER_PAGECOUNT": n_pages}
        live(Path("crawl.sqlite"), **job)
        if n_pages == 40:
            explained = ("explain", tmp_path / "job", "-s", "CRAWLPRIO_NOVELTY=exact")
            assert run_command(*explained) == 0
            assert "put off as a likely repeat" in capsys.readouterr().out
    assert visited_pages(tmp_path / "job" / "crawl.sqlite") == order


@pytest.mark.slow
def test_a_spider_that_yields_requests_fetches_views_for_printers_last(tmp_path):
    live(tmp_path / "crawl.sqlite", Follower)
    first = visited_urls(tmp_path / "crawl.sqlite")[: N_TEXTS + 8]
    assert len({url.rpartition("/")[2] or "0" for url in first}) == N_TEXTS


@pytest.mark.slow
def test_a_fingerprint_that_is_none_is_a_damaged_store(path):
    live(path, CLOSESPIDER_PAGECOUNT=4)
    with Store.open(path, readonly=True) as store:
        assert all(visit.extras["fingerprints"] and not visit.text for visit in store.visits())
    change(path, "UPDATE fingerprints SET fingerprint = 'x'")
    with Store.open(path, readonly=True) as store, pytest.raises(StoreError, match="damaged"):
        list(store.visits())


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_pages_with_the_same_words_have_the_same_fingerprint(kind):
    if kind == "near":
        pytest.importorskip("rensa")
    of = fingerprints(kind)
    words = text_of(1)
    assert of(words, 7) == of(words.upper().replace(" ", " \n- "), 8) != of(text_of(2), 7)
    assert -(2**63) <= of(words, 7) < 2**63
    assert of("Few words", 7) == 7


@pytest.mark.parametrize("kind", ["exact", "near"])
def test_a_text_of_10_mb_takes_the_memory_of_its_beginning(kind):
    """`near` took 0.86 GB. To `exact`, texts that differ beyond the beginning still differ."""
    if kind == "near":
        pytest.importorskip("rensa")
    text = " ".join(f"word{n}" for n in range(1_000_000))
    fingerprint = fingerprints(kind)
    tracemalloc.start()
    fingerprints_of = [fingerprint(text + end, 0) for end in ("", "", " more")]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * len(text)
    assert fingerprints_of[0] == fingerprints_of[1]
    assert (fingerprints_of[0] == fingerprints_of[2]) == (kind == "near")


def test_near_needs_a_package_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "rensa", None)
    with pytest.raises(ConfigError, match=r"run pip install 'crawlprio\[novelty\]'"):
        fingerprints("near")


def test_near_fingerprints_are_close_for_texts_that_differ_in_a_word_of_many():
    pytest.importorskip("rensa")
    of = fingerprints("near")

    def distance(one, other):
        return ((of(one, 0) ^ of(other, 0)) & (2**64 - 1)).bit_count()

    long = " ".join(map(text_of, range(10)))
    assert distance(long, long.replace("word77 ", "another ")) <= 3
    assert distance(long, " ".join(map(text_of, range(5, 15)))) > 10
