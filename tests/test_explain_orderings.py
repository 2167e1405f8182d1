"""Every ordering explains its keys: the parts add up to the key, which is the oracle's."""

import random

import oracles
import pytest
from driver import WebPages
from graphs import power_law_web
from oracles import true_pagerank
from ordering_cases import CASES, ours, with_urls

from crawlprio.graph.pages import NO_PAGE
from crawlprio.orderings import (
    ORDERINGS,
    KeyHistory,
    Ordering,
    Part,
    make_ordering,
    ordering_validation,
)

N_PAGES = 1_000
"""Pages explained under each ordering."""

BY_ALL_LINKS = ("backlink-count", "opic", "rankmass")
"""Orderings under which every link from a fetched page counts."""


class Replay:
    """A crawl of an oracle, and its visits in our page ids."""

    def __init__(self, seed, name, options):
        rng = random.Random(seed)
        web = with_urls(power_law_web(rng.randrange(30, 90), seed=seed))
        seeds = rng.sample(web.pages, 3)
        n_visits = rng.randrange(1, 12)
        self.pages = pages = WebPages(web)
        self.visits = [pages.seeds(seeds)]
        self.known = [len(pages)]
        self.truth = true_pagerank(web)
        self.options = ours(web, options)
        for record, policy in oracles.crawling(web, seeds, name, n_visits, **options):  # noqa: B007
            visit = pages.visit(pages.find(str(record.crawled_pages[-1])))
            self.visits.append(visit)
            self.known.append(len(pages))
        waiting, keys = record.waiting(), policy.keys()
        self.oracle = {pages.find(str(page)): keys[page] for page in waiting}

    def explained(self, name):
        """Return the ordering after these visits, and how it explains each waiting page."""
        ordering = make_ordering(name, self.options)
        ordering_validation.open_ordering(
            ordering, self.pages, lambda at: self.truth[self.pages.numbers[at]]
        )
        histories = [KeyHistory(ordering, page) for page in self.oracle]
        for visit, n_known in zip(self.visits, self.known, strict=True):
            for history in histories:
                history.before(visit, n_known, again=False)
            ordering_validation.learn(ordering, visit, n_known, again=False)
            if (work := ordering_validation.recomputation(ordering)) is not None:
                ordering_validation.accept(ordering, work())
            for history in histories:
                history.after()
        return ordering, {each.page: ordering.explain_history(each) for each in histories}


def givers(part):
    """Yield the pages that an explanation names."""
    yield from () if part.page == NO_PAGE else (part.page,)
    for inner in part.parts:
        yield from givers(inner)


@pytest.mark.parametrize("name", ORDERINGS)
def test_the_parts_of_a_thousand_keys_add_up_to_the_oracles(name):
    cases = CASES.get(name, oracles.ORDERINGS[name].cases)
    n_explained = seed = 0
    while n_explained < N_PAGES:
        seed += 1
        replay = Replay(seed, name, cases[seed % len(cases)])
        linking = {}
        for visit in replay.visits[1:]:
            for target in visit.targets.tolist():
                linking.setdefault(target, set()).add(visit.page)
        ordering, parts = replay.explained(name)
        for page, part in parts.items():
            assert part.adds_up(), (seed, page, part)
            assert part.amount == ordering.keys[page], (seed, page, part)
            key = pytest.approx(replay.oracle[page], rel=1e-9, abs=1e-12)
            assert part.amount == key, (seed, page, part)
            named, all_linking = set(givers(part)), linking.get(page, set())
            assert named <= all_linking, (seed, page, part)
            assert named == all_linking or name not in BY_ALL_LINKS or "pass_on" in replay.options
            assert (name == "sibling-sampling") <= bool(part.parts)
            n_explained += 1


class Halved(Ordering):
    """An ordering of a user's own, without an explanation."""

    initial_key = 0.5


def test_an_ordering_of_a_users_own_states_the_key():
    pages = WebPages(oracles.Web({0: [1]}))
    ordering = Halved()
    ordering.open(pages)
    history = KeyHistory(ordering, 1)
    for visit in (pages.seeds([0]), pages.visit(0)):
        history.before(visit, len(pages), again=False)
        ordering_validation.learn(ordering, visit, len(pages), again=False)
        history.after()
    assert ordering.explain_history(history) == Part("its key", 0.5)


def test_amounts_that_differ_in_the_last_bit_do_not_add_up():
    parts = (Part("a", 0.1), Part("b", 0.2))
    assert Part("key", 0.1 + 0.2, parts=parts).adds_up()
    assert not Part("key", 0.3, parts=parts).adds_up()
    assert not Part("key", 0.5, parts=(Part("key", 0.5, parts=parts),)).adds_up()
