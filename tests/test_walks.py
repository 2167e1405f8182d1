"""Random walks end at pages that were got as often as these hold importance, on every web."""

from random import Random

import numpy as np
import pytest
from linkgraphs import as_arrays
from oracles.coverage import trusted_pagerank
from oracles.walks import ends_of_leaving_walks

from crawlprio.ranking.coverage_estimate import Fetches
from crawlprio.ranking.walks import Walks


def web(random, n_pages):
    """A random web: some pages without links, the later ones mostly linked among themselves."""
    links = {}
    for page in range(n_pages):
        near = [other for other in range(n_pages) if abs(other - page) < n_pages // 3]
        others = {random.choice(near) for _ in range(random.randrange(6))} - {page}
        links[page] = sorted(others)
    return links


def crawl(random, links, n_fetched):
    """Seeds, fetched pages and those of them that were got, in a walk over the web; failed pages
    have no links, whatever the web says.
    """
    seeds = sorted(random.sample(sorted(links), 2))
    fetched = [seeds[0]]
    for page in fetched:
        fetched += [other for other in links[page] if other not in fetched]
    fetched = fetched[:n_fetched]
    got = [page for page in fetched if random.random() < 0.9]
    for page in fetched:
        if page not in got:
            links[page] = []
    return seeds, fetched, got


def walks_of(links, seeds, fetched, got, n_walks, seed=""):
    rows = [links[page] for page in fetched]
    fetches = Fetches(
        len(links),
        np.array(seeds, dtype=np.int32),
        np.array(fetched, dtype=np.int32),
        *as_arrays(rows),
    )
    return Walks(fetches, np.isin(np.arange(len(links)), got), n_walks, seed)


def walk_all(walks, links):
    while walks.wanted:
        page = walks.wanted[-1]
        walks.answer(page, links[page])


@pytest.mark.parametrize("number", range(6))
def test_walks_end_where_whole_walks_from_the_seeds_do(number):
    random = Random(number)
    links = web(random, 20)
    seeds, fetched, got = crawl(random, links, 8)
    n = 4_000
    walks = walks_of(links, seeds, fetched, got, n)
    walk_all(walks, links)
    found = walks.certificate()
    ends = ends_of_leaving_walks(links, fetched, seeds, n, random)
    n_back = sum(end in got for end in ends)
    spread = (2 * n * 0.25) ** 0.5
    assert abs(found.n_back - n_back) < 4.5 * spread, number
    truth = sum(trusted_pagerank(links, seeds)[page] for page in got)
    assert found.n_open == 0
    assert abs(found.likely - truth) < 4.5 * (0.25 / n) ** 0.5, number


def test_the_share_is_at_least_what_they_say_in_19_of_20_crawls():
    below = above = 0
    n = 600
    for number in range(n):
        random = Random(number)
        links = web(random, 18)
        seeds, fetched, got = crawl(random, links, random.randrange(1, 12))
        try:
            walks = walks_of(links, seeds, fetched, got, 20, str(number))
        except ValueError:
            continue
        walk_all(walks, links)
        found = walks.certificate()
        truth = sum(trusted_pagerank(links, seeds)[page] for page in got)
        assert found.certain <= truth + 1e-9
        below += truth < found.at_least - 1e-9
        above += truth > found.at_most + 1e-6
    # More than 52 of 600 cases have a probability of .0001 if each fails with one of .05.
    assert below <= 52, below
    assert above <= 52, above


def test_the_order_of_answers_changes_nothing_and_more_walks_are_the_same_and_others():
    random = Random(1)
    links = web(random, 20)
    seeds, fetched, got = crawl(random, links, 6)
    first, last = (walks_of(links, seeds, fetched, got, 50) for _ in range(2))
    asked = [first.wanted]
    while first.wanted:
        page = first.wanted[0]
        more = first.answer(page, links[page])
        assert not set(more) & set(asked[-1])
        asked.append(first.wanted)
    walk_all(last, links)
    assert first.certificate() == last.certificate()
    longer = walks_of(links, seeds, fetched, got, 80)
    assert set(asked[0]) <= set(longer.wanted)
    for page in links:
        longer.answer(page, links[page])
    walk_all(longer, links)
    found = longer.certificate()
    assert found.n_back - first.certificate().n_back in range(31)


def test_walks_without_an_answer_count_for_neither_side():
    random = Random(2)
    links = web(random, 20)
    seeds, fetched, got = crawl(random, links, 6)
    walks = walks_of(links, seeds, fetched, got, 200)
    before = walks.certificate()
    walk_all(walks, links)
    after = walks.certificate()
    assert before.n_open > after.n_open == 0
    assert before.at_least <= after.at_least <= after.likely <= after.at_most <= before.at_most


def test_a_crawl_that_has_everything_has_no_walks():
    with pytest.raises(ValueError, match="no page is left to walk to"):
        walks_of({0: [1], 1: [0]}, [0], [0, 1], [0, 1], 10)
    with pytest.raises(ValueError, match="n_walks is 0"):
        walks_of({0: [1], 1: [0]}, [0], [0], [0], 0)


def test_walks_that_come_nowhere_stay_open_and_count_for_neither_side():
    links = {0: [1, 2, 3], 1: [0], 2: [0], 3: []}
    fetches = Fetches(
        4, *(np.array(row, dtype=np.int32) for row in ([0], [0, 1])), *as_arrays([[1, 2, 3], [0]])
    )
    walks = Walks(fetches, np.array([True, True, False, False]), 400, "seed", nowhere=3)
    assert walks.wanted == [2]
    walks.answer(2, [0, 3, 3])
    assert walks.wanted == []
    found = walks.certificate()
    assert found.n_back + found.n_open <= 400
    assert found.n_open > 100
    for rest in ([0], [1], [2], []):  # whatever page 3 stands for
        truth = sum(trusted_pagerank({**links, 2: [0, 3], 3: rest}, [0])[page] for page in (0, 1))
        assert found.at_least <= truth <= found.at_most
