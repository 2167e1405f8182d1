"""Visits read as columns are the visits read one by one, and are refused when those are."""

import contextlib
import random
from functools import partial

import numpy as np
import pytest
from driver import WebPages
from graphs import power_law_web
from hypothesis import given
from hypothesis import strategies as st
from ordering_cases import with_urls
from stores import change

from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.store import Store, visit_rows
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.visit_rows import target_arrays, target_list

SEED = 11
N_PAGES = 7
FIELDS = ("page", "status", "fetched_at", "elapsed", "error")


def stored(path, n_visits=60):
    """Write a crawl with failures, revisits, and refusals, one of them of a page asked for."""
    rng = random.Random(SEED)
    print("seed", SEED)
    pages = WebPages(with_urls(power_law_web(100, seed=SEED)))
    with Store.create(path) as store:
        store.record_pages(pages, pages.seeds([0, 5, 9]).targets.tolist())
        store.add_ordering("opic")
        for number in range(n_visits):
            seeds = np.array([len(pages)], dtype=np.int32)
            if number % 20 == 7:  # as a crawl in Redis records seeds
                pages.find_or_add([500 + number])
                store.record(Visit(NO_PAGE, seeds), pages)
            fields = {"status": rng.choice([200, 200, 200, 404])}
            if rng.random() < 0.2:
                causes = "forbidden by robots.txt", "timeout", "refused (a rule)"
                fields = {"status": 0, "error": rng.choice(causes)}
            visit = pages.visit(rng.randrange(min(len(pages), number + 4)))
            times = {"fetched_at": 50.0 + rng.random(), "elapsed": rng.random()}
            store.record(visit._replace(**fields, **times), pages)
        visited = {visit.page for visit in store.visits()}
        store.pending.leased.set(next(page for page in range(len(pages)) if page not in visited))
        store.record_pages(pages)
    return path


def fields(visit):
    return (*(getattr(visit, name) for name in FIELDS), visit.targets.tolist())


def test_columns_hold_what_visits_do(tmp_path, monkeypatch):
    for most_visits, most_characters in ((1, 10**6), (7, 10**6), (2_000, 40)):
        monkeypatch.setattr(visit_rows, "MOST_VISITS", most_visits)
        monkeypatch.setattr(visit_rows, "MOST_CHARACTERS", most_characters)
        path = stored(tmp_path / f"{most_visits}.sqlite")
        with Store.open(path, readonly=True) as store:
            visits = list(store.visits(texts=False, anchors=False, history=True))
            groups = list(store.visit_columns())
        found = [group.visit(at) for group in groups for at in range(len(group.pages))]
        assert list(map(fields, found)) == list(map(fields, visits))
        refused = [refusal for group in groups for refusal in group.is_refused.tolist()]
        assert refused == [is_refusal(visit.status, visit.error) for visit in visits]
        assert max(len(group.pages) for group in groups) <= most_visits
        assert len(groups) > 1


TARGETS = st.one_of(
    st.lists(st.integers(0, N_PAGES)).map(lambda ids: str(ids).replace(" ", "")),
    st.text(st.sampled_from("[[]],0123 -.é"), max_size=9),
    st.sampled_from(["[]", "[1,2]", "[1, 2]", "[01]", "[0,10]", "[[1]]", "[1],[2]", "[99999]"]),
    st.sampled_from(["[true]", "[1e0]", "[1.0]", '["1"]', "[99999999999999999999]", "", "]["]),
)


def result_of(read):
    with contextlib.suppress(ValueError, TypeError):
        return read()
    return None


@given(st.lists(TARGETS, min_size=1, max_size=4))
def test_links_are_read_together_as_they_are_one_by_one(texts):
    def together():
        n_each, ids = target_arrays(texts, N_PAGES)
        return [part.tolist() for part in np.split(ids, np.cumsum(n_each)[:-1])]

    one_by_one = result_of(lambda: [target_list(text, N_PAGES) for text in texts])
    assert result_of(together) == one_by_one


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("page", value) for value in (-2, 9_999, "one", 1.5)),
        *(("status", value) for value in ("fine", 1.5)),
        *(("fetched_at", value) for value in ("now", float("inf"))),
        *(("elapsed", value) for value in ("long", float("-inf"))),
        *(("targets", value) for value in ("[-1]", "[9999]", "[1", "[1.0]")),
        *(("error", value) for value in (b"timeout", b"")),
        ("seq", -5),
    ],
)
def test_a_damaged_visit_is_refused_by_both(tmp_path, column, value):
    path = stored(tmp_path / "crawl.sqlite")
    change(path, f"UPDATE visits SET {column} = ? WHERE seq = 30", value)
    with Store.open(path, readonly=True) as store:
        for read in (partial(store.visits, history=True), store.visit_columns):
            with pytest.raises(StoreError, match="damaged"):
                list(read())
