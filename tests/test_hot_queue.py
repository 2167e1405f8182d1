"""The hot queue and its topic, page by page."""

import numpy as np
import oracles
import pytest
from driver import fetch_order
from examples import examples
from graphs import webs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import Topic as OracleTopic
from oracles import occurrences

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.graph.topic import HotQueue, Topic

TOPIC = OracleTopic(["crawling"])


def test_a_stemmer_merges_the_forms_of_a_word():
    topic = Topic("crawlers, ordered links", stem="english")
    assert topic.count("A crawler orders links and crawlers order a link") == 3
    assert Topic("crawlers").count("A crawler") == 0


ALPHABET = st.text(alphabet="aAbB .-_1\N{LATIN SMALL LETTER E WITH ACUTE}", max_size=30)


@settings(max_examples=examples(200), deadline=None, derandomize=True, database=None)
@given(ALPHABET, st.lists(ALPHABET, min_size=1, max_size=3))
@example("Web-crawling, web\ncrawling; WEB... Crawling web", ["web", "web crawling"])
@example("a a a", ["a a"])
@example("Stra\N{LATIN SMALL LETTER SHARP S}e 4_2", ["STRASSE", "4"])
def test_a_topic_counts_as_the_oracle_does(text, terms):
    if not any(oracles.words(term) for term in terms):
        with pytest.raises(ConfigError, match="contains no word"):
            Topic(terms)
    else:
        assert Topic(terms).count(text) == occurrences(text, terms)


def test_hot_pages_found_are_counted():
    queue = HotQueue(Topic("crawling"))
    pages = PageTable()
    site = pages.site("s")
    for number in range(3):
        pages.add(str(number), "", site)
    queue.sort_in(Visit(NO_PAGE, np.array([0, 1, 2], dtype=np.int32)), 0, 3, pages)
    for page, title in enumerate(["Crawling", "Shop", "On crawling"]):
        queue.sort_in(Visit(page, np.empty(0, dtype=np.int32), title=title), 3, 3, pages)
    assert queue.n_hot == 2


@settings(max_examples=examples(100), deadline=None, derandomize=True, database=None)
@given(webs(max_pages=30), st.integers(0, 6), st.integers(1, 3), st.integers(1, 12))
def test_random_webs_are_fetched_hot_pages_first_as_the_oracle_does(web, distance, title, body):
    topic = OracleTopic(["frontier", "the web"], title=title, body=body, distance=distance)
    for name in ("breadth-first", "depth-first"):
        found = fetch_order(web, [0], name, topic=topic)
        assert found == oracles.crawl(web, [0], name, topic=topic)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"distance": -1}, "distance is -1; give a whole number of 0 or more, below 256."),
        ({"distance": 256}, "distance is 256; give a whole number of 0 or more, below 256."),
        ({"distance": 2.5}, "distance is 2.5; give a whole number of 0 or more, below 256."),
        ({"title": 0}, "title is 0; give a whole number of 1 or more."),
        ({"body": True}, "body is True; give a whole number of 1 or more."),
        ({"body": "many"}, "body is 'many'; give a whole number of 1 or more."),
    ],
)
def test_a_bad_option_of_the_hot_queue_is_refused_in_one_sentence(options, sentence):
    with pytest.raises(ConfigError) as caught:
        HotQueue(Topic("crawling"), **options)
    assert str(caught.value) == f"TOPIC_OPTIONS: {sentence}"


def test_a_topic_that_is_not_a_text_or_a_list_is_refused_in_one_sentence():
    with pytest.raises(ConfigError) as caught:
        Topic(5)
    assert str(caught.value) == "TOPIC is 5; give comma-separated words or phrases."
    with pytest.raises(ConfigError, match=r"^The topic's stemmer is 'klingon'; known stemmers: "):
        Topic("crawling", stem="klingon")
