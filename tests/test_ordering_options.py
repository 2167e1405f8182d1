"""What the options of orderings may be, the errors about bad ones, and files of earlier scores."""

import numpy as np
import pytest
from driver import WebPages, fetch_order
from graphs import EARLIER_SCORES, earlier_and_new
from oracles import Web, crawl, pagerank, rounded

from crawlprio.errors import ConfigError, CrawlprioError, GraphError
from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import NAMED, Ordering, make_ordering
from crawlprio.orderings.by_pagerank import PageRank
from crawlprio.orderings.historical import HistoricalPageRank
from crawlprio.orderings.ordering_validation import OrderingError
from crawlprio.store import Store


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("random", {"seed": -1},
         "seed is -1; give a whole number of 0 or more, below 9007199254740992."),
        ("opic", {"pass_on": "lots"}, "pass_on is 'lots'; give a number of 0 or more."),
        ("opic", {"cash": 1},
         "ORDERING_OPTIONS has 'cash', which opic does not take; known options: seed_cash, "
         "pass_on, pass_on_budget, history, site_share."),
        ("breadth-first", {"x": 1},
         "ORDERING_OPTIONS has 'x', which breadth-first does not take; known options: site_share."),
        ("breadth-first", {"site_share": 0}, "site_share is 0; give a whole number of 1 or more."),
        ("sibling-sampling", {"seed_mass": -1}, "seed_mass is -1; give a number of 0 or more."),
        ("sibling-sampling", {"damping": 1.0},
         "damping is 1.0; give a number of 0 or more, below 1."),
        ("sibling-sampling", {"decay": 1.5}, "decay is 1.5; give a number of 0 or more, below 1."),
        ("sibling-sampling", {"novelty": "much"}, "novelty is 'much'; give a number of 0 or more."),
        ("sibling-sampling", {"n_passes": 0.5},
         "n_passes is 0.5; give a whole number of 0 or more."),
        ("sibling-sampling", {"optimism": -0.1}, "optimism is -0.1; give a number of 0 or more."),
        ("sibling-sampling", {"kept_links": 2**30 + 1},
         "kept_links is 1073741825; give a whole number of 0 or more, below 1073741825."),
        ("scout", {"seed_mass": -1}, "seed_mass is -1; give a number of 0 or more."),
        ("scout", {"damping": 1.0}, "damping is 1.0; give a number of 0 or more, below 1."),
        ("scout", {"novelty": "much"}, "novelty is 'much'; give a number of 0 or more."),
        ("scout", {"threshold": -0.1}, "threshold is -0.1; give a number of 0 or more."),
        ("scout", {"push_budget": 2**24},
         "push_budget is 16777216; give a whole number of 0 or more, below 16777216."),
        ("combined", {"weights": {"opic": 1.0}, "options": {"opic": {"site_share": 1}}},
         "options gives 'opic' a site_share; give it to combined itself."),
        ("rankmass", {"damping": 1.0}, "damping is 1.0; give a number of 0 or more, below 1."),
        ("fica", {"link": -0.1}, "link is -0.1; give a number of 0 or more."),
        ("pagerank", {"every": 0}, "every is 0; give a whole number of 1 or more."),
        ("partial-pagerank", {"every": None}, "every is None; give a whole number of 1 or more."),
        ("batch-pagerank", {"every": 2.5}, "every is 2.5; give a whole number of 1 or more."),
        ("batch-pagerank", {"fill": 1}, "fill is 1; give True or False."),
        ("combined", {"weights": {"batch-pagerank": 1.0}},
         'weights has \'batch-pagerank\', which holds pages back; give it {"fill": True} under '
         "options, or leave it out."),
        ("pagerank", {"damping": 1}, "damping is 1; give a number of 0 or more, below 1."),
        ("historical-pagerank", {},
         "scores is missing; give a file with the scores of an earlier crawl: its crawl store, "
         "a .npz or a .csv."),
        ("historical-pagerank", {"scores": {"http://a/": 1.0}, "new": "old"},
         "new is 'old'; give one of zero, random, parent, omniscient."),
        ("historical-pagerank", {"scores": 3},
         "scores is 3; give the path of a crawl store, a .npz or a .csv, or a dict of URL -> "
         "score."),
        ("historical-pagerank", {"scores": "nowhere.csv"},
         "scores is 'nowhere.csv', but there is no such file; give a crawl store, a .npz or a "
         ".csv."),
        ("historical-pagerank", {"scores": {"http://a/": 1.0, "http://b/": float("nan")}},
         "scores of 'http://b/': the score is nan; it must be a finite number."),
        ("historical-pagerank", {"scores": {}},
         "ORDERING_OPTIONS: there are no scores in it; give at least one."),
        ("anchor-similarity", {},
         'words is missing; give the words to look for in anchor texts, such as {"words": '
         '"machine learning, statistics"}.'),
        ("anchor-similarity", {"words": 7}, "words is 7; give comma-separated words or phrases."),
        ("combined", {},
         'weights is None; give a dict of orderings and weights, such as {"opic": 1.0, '
         '"location": 0.5}.'),
        ("combined", {"weights": {"opic": "much"}}, "weights['opic'] is 'much'; give a number."),
        ("combined", {"weights": {"opic": 1.0}, "options": {"location": {}}},
         "options has 'location', which has no weight; orderings with a weight: opic."),
        ("combined", {"weights": {"opic": 1.0}, "options": [1]},
         'options is [1]; give a dict of options per ordering, such as {"location": {"slashes": '
         "2.0}}."),
        ("combined", {"weights": {"opic": 1.0, "larger-sites-first": 1.0}},
         "weights has 'larger-sites-first', which ranks sites, not pages; leave it out."),
        ("combined", {"weights": {"larger-sites-first": 1.0}},
         "weights has 'larger-sites-first', which ranks sites, not pages; leave it out."),
        ("batched", {"weights": {"larger-sites-first": 1.0, "opic": 1.0}},
         "weights has 'larger-sites-first', which ranks sites, not pages; give it alone, or leave "
         "it out."),
        ("combined", {"weights": {"opic": 1.0}, "options": {"opic": {"cash": 2}}},
         "ORDERING_OPTIONS of combined: ORDERING_OPTIONS has 'cash', which opic does not take; "
         "known options: seed_cash, pass_on, pass_on_budget, history, site_share."),
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_in_one_sentence(name, options, sentence):
    """Sentences that name no setting or file follow the name of the ordering."""
    with pytest.raises(CrawlprioError) as caught:
        make_ordering(name, options)
    named = sentence.startswith(("ORDERING_OPTIONS", "scores of"))
    assert str(caught.value) == (sentence if named else f"ORDERING_OPTIONS of {name}: {sentence}")


def test_an_unknown_ordering_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError) as caught:
        make_ordering("opick")
    known = ", ".join(sorted(NAMED))
    assert str(caught.value) == (
        f"ORDERING is 'opick'; known orderings: {known}; or give an import path."
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("omniscient", {}),
        ("historical-pagerank", {"scores": {"http://a/": 1.0}, "new": "omniscient"}),
        ("combined", {"weights": {"omniscient": 1.0}}),
    ],
)
def test_what_needs_the_whole_graph_is_refused_if_the_graph_is_unknown(name, options):
    with pytest.raises(ConfigError, match="needs the PageRank of the whole graph"):
        PageQueue(make_ordering(name, options), PageTable())


def test_an_ordering_declares_whether_it_reads_anchor_texts():
    words = {"words": "crawling"}
    combined = {"weights": {"opic": 1.0, "anchor-similarity": 1.0}}
    assert make_ordering("anchor-similarity", words).needs_anchors
    assert make_ordering(
        "combined", {**combined, "options": {"anchor-similarity": words}}
    ).needs_anchors
    assert not make_ordering("combined", {"weights": {"opic": 1.0}}).needs_anchors
    assert not make_ordering("opic").needs_anchors


class OwnPageRank(PageRank):
    """A user's refinement."""


@pytest.mark.parametrize(
    ("name", "options", "is_slow"),
    [
        ("crawlprio.orderings.by_pagerank.PageRank", {}, True),
        (OwnPageRank, {}, True),
        ("combined", {"weights": {"opic": 1.0, "pagerank": 1.0}}, True),
        ("batched", {"weights": {"scout": 1.0}}, False),
        ("sibling-sampling", {}, False),
    ],
)
def test_an_ordering_says_whether_it_is_slow_in_python_however_it_is_named(name, options, is_slow):
    assert make_ordering(name, options).is_slow_in_python == is_slow


def test_a_combined_ordering_can_have_a_member_given_by_import_path():
    web = Web(links={0: [1, 2, 3], 2: [3]})
    path = "crawlprio.orderings.baseline.BacklinkCount"
    options = {"weights": {path: -1.0, "breadth-first": 1.0}}
    assert fetch_order(web, [0], "combined", options) == [0, 1, 2, 3]
    options = {"weights": {path: 1.0, "depth-first": 0.5}}
    assert fetch_order(web, [0], "combined", options) == [0, 1, 2, 3]
    assert fetch_order(web, [0, 3, 2], "combined", options) == [0, 1, 3, 2]


def url(page):
    return f"http://earlier.example/{page}"


def historical_web():
    web = earlier_and_new()
    web.urls = {page: url(page) for page in web.pages}
    return web


def write_csv(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_scores_are_read_from_csv_npz_and_dict_alike(tmp_path):
    scores = {url(page): score for page, score in EARLIER_SCORES.items()}
    lines = [f"{address},{score}" for address, score in scores.items()]
    np.savez(tmp_path / "by_url.npz", urls=list(scores), scores=list(scores.values()))
    np.savez(tmp_path / "by_id.npz", scores=[0.8, 0.3])
    for new in ("zero", "random", "parent", "omniscient"):
        expected = crawl(
            historical_web(), [0], "historical-pagerank", scores=EARLIER_SCORES, new=new, seed=5
        )
        for given in (
            scores,
            write_csv(tmp_path / "plain.csv", *lines),
            str(write_csv(tmp_path / "header.csv", "URL,score", *lines, "", f"{url(0)},9")),
            tmp_path / "by_url.npz",
        ):
            options = {"scores": given, "new": new, "seed": 5}
            assert fetch_order(historical_web(), [0], "historical-pagerank", options) == expected
    by_id = {"scores": tmp_path / "by_id.npz", "new": "parent"}
    assert fetch_order(earlier_and_new(), [0], "historical-pagerank", by_id) == crawl(
        earlier_and_new(), [0], "historical-pagerank", scores={0: 0.8, 1: 0.3}, new="parent"
    )


def test_the_scores_of_a_crawl_store_are_the_pagerank_of_its_pages(tmp_path):
    web = historical_web()
    pages = WebPages(web)
    with Store.create(tmp_path / "crawl.sqlite") as store:
        seeds = pages.seeds([0])
        store.record(seeds, pages)
        for page in range(3):
            store.record(pages.visit(page), pages)
    ordering = make_ordering("historical-pagerank", {"scores": tmp_path / "crawl.sqlite"})
    assert isinstance(ordering, HistoricalPageRank)
    table = PageTable()
    for page in (2, 0, 77):
        table.add(str(page), url(page), table.site("earlier.example"))
    ordering.open(table)
    ordering.learn(Visit(NO_PAGE, np.arange(3, dtype=np.int32)), 3)
    seen = {page: web.links_of(page) if page < 3 else [] for page in web.pages}
    ranks = {page: rounded(rank) for page, rank in pagerank(seen).items()}
    assert ordering.keys[:3].tolist() == pytest.approx([ranks[2], ranks[0], 0.0], rel=1e-7)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", [], ": there are no scores in it; give at least one."),
        ("a.csv", ["URL,score"], ": there are no scores in it; give at least one."),
        ("a.csv", ["http://a/,1", "http://b/,c,2"],
         ":2: expected URL,score; found 3 fields (quote a URL that has commas)."),
        ("a.csv", ["http://a/"],
         ":1: expected URL,score; found 1 fields (quote a URL that has commas)."),
        ("a.csv", ["http://a/,1", "http://b/,x"],
         ":2: the score is 'x'; it must be a finite number."),
        ("a.csv", ["http://a/,1", "http://b/,inf"],
         ":2: the score is 'inf'; it must be a finite number."),
        ("a.npz", {"ranks": [1.0]}, " has no array scores; add one, and an array urls."),
        ("a.npz", {"scores": ["a"]}, ": scores holds <U1; it must hold numbers."),
        ("a.npz", {"scores": [[1]]}, ": scores has 2 dimensions; it must have one."),
        ("a.npz", {"scores": [1.0, np.nan]}, ": score 1 is nan; all must be finite numbers."),
        ("a.npz", {"scores": [1.0], "urls": ["a", "b"]},
         ": urls is <U1 of shape (2,); it must hold one string per score, 1."),
        ("a.npz", {"scores": np.empty(0)}, ": there are no scores in it; give at least one."),
    ],
)  # fmt: skip
def test_a_bad_file_of_scores_is_refused_with_its_name_and_line(tmp_path, name, content, sentence):
    path = tmp_path / name
    if name == "a.csv":
        write_csv(path, *content)
    else:
        np.savez(path, **content)
    with pytest.raises(GraphError) as caught:
        make_ordering("historical-pagerank", {"scores": path})
    assert str(caught.value) == f"{path}{sentence}"


def test_a_url_with_commas_is_quoted(tmp_path):
    path = write_csv(tmp_path / "scores.csv", '"http://a/?x=1,2",0.25')
    ordering = make_ordering("historical-pagerank", {"scores": path})
    assert isinstance(ordering, HistoricalPageRank)
    ordering.check_known(["http://b/", "http://a/?x=1,2"])


def test_a_file_that_is_not_an_npz_is_refused_in_one_sentence(tmp_path):
    for content in (b"", b"PK\x03\x04 cut short", b"no archive"):
        path = tmp_path / "scores.npz"
        path.write_bytes(content)
        with pytest.raises(GraphError, match=r"scores\.npz cannot be read as \.npz \("):
            make_ordering("historical-pagerank", {"scores": path})


def test_scores_by_page_id_are_refused_in_a_live_crawl(tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, scores=[0.5, 0.5])
    with pytest.raises(ConfigError) as caught:
        PageQueue(make_ordering("historical-pagerank", {"scores": path}), PageTable())
    assert str(caught.value) == (
        f"{path}: its scores are indexed by page id, which only a simulation knows; add an array "
        "urls."
    )


def test_scores_for_other_pages_than_the_graphs_are_refused():
    ordering = make_ordering("historical-pagerank", {"scores": {"http://a/": 1.0}})
    assert isinstance(ordering, HistoricalPageRank)
    with pytest.raises(ConfigError) as caught:
        ordering.check_known(["http://b/", "http://c/"])
    assert str(caught.value) == (
        "ORDERING_OPTIONS has scores of 1 URLs, none of which is in the graph; give the scores of "
        "an earlier crawl of the same pages."
    )
    with pytest.raises(ConfigError, match="but the graph has no URLs"):
        ordering.check_known(None)


class GivesNan(Ordering):
    """A member of a sum that fails at the third visit."""

    n_visits = 0

    def observe(self, visit):
        self.n_visits += 1
        if self.n_visits == 3:
            self.keys[0] = np.nan
            return np.array([0], dtype=np.int32)
        return visit.targets


class NamesNoPage(Ordering):
    def observe(self, visit):
        return np.array([10**6], dtype=np.int32)


class OpensNothing(NamesNoPage):
    def open(self, pages, truth=None):
        """Without `super().open`."""


@pytest.mark.parametrize(
    ("member", "fault"),
    [
        (GivesNan, "observe gave a page the key nan"),
        (NamesNoPage, "observe returned"),
        (OpensNothing, "open does not call that of `Ordering`"),
    ],
)
def test_a_failing_member_of_a_sum_is_refused_by_name(member, fault):
    name = f"{member.__module__}.{member.__qualname__}"
    ordering = make_ordering("combined", {"weights": {"opic": 1.0, name: 0.5}})
    with pytest.raises(OrderingError, match=f"Ordering {name}: {fault}"):
        fetch_order(Web(links={0: [1, 2], 1: [2], 2: [0, 3], 3: [4]}), [0], ordering)
