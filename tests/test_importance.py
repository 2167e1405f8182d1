"""Importance I(P): every measure compared with its definition in the papers, and weighted sums."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from driver import WebPages
from examples import examples
from graphs import power_law_web, webs
from hypothesis import given, settings
from hypothesis import strategies as st
from linkgraphs import as_arrays
from oracles import Web, occurrences
from oracles import importance as oracle

from crawlprio.errors import ConfigError, CrawlprioError, GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import Visit
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.measure.importance import (
    IMPORTANCES,
    PageText,
    Repository,
    importance_of,
    make_importance,
    open_repository,
    option_names,
)
from crawlprio.measure.scores import MARKS, score
from crawlprio.orderings import make_ordering
from crawlprio.plugins.papers import rare_importances
from crawlprio.store import Store

TOPIC = Topic(",".join(oracle.TOPIC))


@dataclass
class WebTexts:
    """Return the texts of some pages of a web."""

    web: Web
    pages: list[int]

    def __iter__(self):
        for page in self.pages:
            yield PageText(page, self.web.titles.get(page, ""), self.web.bodies.get(page, ""))


def repository_of(web):
    """Return a fully known web; its pages must be numbered from 0 without gaps."""
    rows = [web.links.get(page, []) for page in web.pages]
    assert web.pages == list(range(len(rows)))
    graph = LinkGraph.cleaned(
        *as_arrays(rows),
        site=np.array([web.site.get(page, 0) for page in web.pages]),
        urls=[web.urls.get(page, "") for page in web.pages],
    )
    return Repository(graph, "the web", texts=WebTexts(web, web.pages))


def listed(values):
    return [values[page] for page in sorted(values)]


def repository_from(rows, **texts):
    return repository_of(Web(dict(enumerate(rows)), **texts))


def test_every_importance_has_an_oracle():
    assert sorted(IMPORTANCES) == sorted(oracle.IMPORTANCES)


@pytest.mark.parametrize("name", IMPORTANCES)
@pytest.mark.parametrize("seed", [1, 2])
def test_importance_matches_the_papers(name, seed):
    web = power_law_web(150, seed)
    values = importance_of(repository_of(web), name, topic=TOPIC)
    assert values.dtype == np.float64
    assert values.tolist() == pytest.approx(
        listed(oracle.IMPORTANCES[name](web)), rel=1e-8, abs=1e-11
    )


# Iterations of hubs and authorities take a while to separate nearly equal communities.
@pytest.mark.parametrize("name", sorted(set(IMPORTANCES) - {"hubs", "authorities"}))
@given(web=webs(max_pages=12))
@settings(max_examples=examples(40), deadline=None)
def test_importance_of_any_small_web_matches_the_papers(name, web):
    repository = repository_of(web)
    try:
        values = importance_of(repository, name, topic=TOPIC)
    except GraphError:
        remote = [
            target
            for page in web.pages
            for target in web.links_of(page)
            if web.site[page] != web.site.get(target, 0)
        ]
        assert (name, remote) == ("remote-pagerank", [])
        return
    assert values.tolist() == pytest.approx(
        listed(oracle.IMPORTANCES[name](web)), rel=1e-8, abs=1e-11
    )


@pytest.mark.parametrize(
    "options", [{"times": 0.25}, {"times": 9.0}, {"share": 0.8}, {"share": 0.0, "damping": 0.5}]
)
def test_links_between_sites_have_the_requested_weight(options):
    web = power_law_web(150, 5)
    values = importance_of(repository_of(web), "weighted-pagerank", options=options)
    expected = listed(oracle.weighted_pagerank(web, **options))
    assert values.tolist() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("idf", ["log", "inverse", "none"])
@pytest.mark.parametrize("measure", ["cosine", "inner"])
@pytest.mark.parametrize("title", [0.0, 1.0, 10.0])
def test_similarity_weights_terms_as_requested(idf, measure, title):
    web = power_law_web(120, 4)
    options = {"idf": idf, "measure": measure, "title": title}
    topic = Topic("web crawling, frontier, absent, frontier")
    values = importance_of(repository_of(web), "similarity", topic=topic, options=options)
    expected = oracle.similarity(
        web, ["web crawling", "frontier", "absent"], idf=idf, measure=measure, title=title
    )
    assert values.tolist() == pytest.approx(listed(expected), rel=1e-12, abs=1e-15)


@given(
    title=st.sampled_from(["", "Web", "web crawling", "frontier frontier"]),
    body=st.lists(st.sampled_from(["web", "Crawling", "frontiers", "frontier"]), max_size=40),
)
def test_a_page_is_hot_in_the_crawl_if_its_term_count_is_10_or_more(title, body):
    text = " ".join(body)
    repository = repository_from([[]], titles={0: title}, bodies={0: text})
    (count,) = importance_of(repository, "term-count", topic=TOPIC)
    assert count == 10 * TOPIC.count(title) + TOPIC.count(text)
    assert count == 10 * occurrences(title, oracle.TOPIC) + occurrences(text, oracle.TOPIC)
    visit = Visit(0, np.empty(0, dtype=np.int32), title=title, text=text)
    assert HotQueue(TOPIC).is_hot(visit) == (count >= 10)


def test_a_stemmed_topic_counts_other_forms_of_its_words():
    repository = repository_from([[]], bodies={0: "crawlers crawling a crawled crawl"})
    assert importance_of(repository, "term-count", topic=Topic("crawl")).tolist() == [1]
    stemmed = Topic("crawling", stem="english")
    assert importance_of(repository, "term-count", topic=stemmed).tolist() == [3]


@pytest.mark.parametrize("rows", [[[]], [[], []], [[1], []], [[1], [0]]])
def test_the_smallest_graphs_have_an_importance(rows):
    repository = repository_from(rows, urls=dict.fromkeys(range(len(rows)), "http://a.test/"))
    for name in sorted(set(IMPORTANCES) - {"remote-pagerank"}):
        values = importance_of(repository, name, topic=TOPIC)
        assert np.isfinite(values).all(), name
        assert len(values) == len(rows), name


def test_on_a_large_graph_the_harmonic_estimate_is_unbiased(monkeypatch):
    repository = repository_of(power_law_web(200, 6))
    exact = importance_of(repository, "harmonic")
    monkeypatch.setattr(rare_importances, "EXACT_WORK", 0)
    whole = make_importance("harmonic", {"harmonic": {"sample": 200}})
    assert whole.of(repository).tolist() == exact.tolist()
    assert whole.remarks(repository) == []
    few = make_importance("harmonic", {"harmonic": {"sample": 20}})
    (remark,) = few.remarks(repository)
    assert "estimated from the distances from 20 pages" in remark
    draws = [
        importance_of(repository, "harmonic", options={"sample": 20, "seed": seed})
        for seed in range(400)
    ]
    assert draws[0].tolist() != draws[1].tolist()
    assert np.mean(draws, axis=0).sum() == pytest.approx(exact.sum(), rel=0.02)
    assert np.mean(draws, axis=0)[exact.argmax()] == pytest.approx(exact.max(), rel=0.05)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("0.5*pagerank+0.5*backlinks", [(0.5, "pagerank"), (0.5, "backlinks")]),
        ("2 * harmonic + location + .25*hubs", [(2, "harmonic"), (1, "location"), (0.25, "hubs")]),
        ("3*term-count+backlinks", [(3, "term-count"), (1, "backlinks")]),
    ],
)
def test_a_sum_is_of_the_values_as_they_are_or_scaled_of_those_divided_by_their_means(name, parts):
    web = power_law_web(150, 7)
    given = [(weight, oracle.IMPORTANCES[part](web)) for weight, part in parts]
    for form, expected in (("", oracle.combined), ("scaled:", oracle.combined_by_mean)):
        values = importance_of(repository_of(web), form + name, topic=TOPIC)
        assert values.tolist() == pytest.approx(listed(expected(given)), rel=1e-8)


@pytest.mark.parametrize(
    ("name", "conditions"),
    [
        ("term-count>=10&backlinks>=5", [("term-count", 10), ("backlinks", 5)]),
        (" backlinks >= 3 & location >= 1.5 ", [("backlinks", 3), ("location", 1.5)]),
        ("forward-links>=2", [("forward-links", 2)]),
        ("backlinks>=0&term-count>=.5", [("term-count", 0.5)]),
    ],
)
def test_conditions_are_1_where_all_of_them_are_met_and_0_elsewhere(name, conditions):
    web = power_law_web(150, 7)
    parts = [(oracle.IMPORTANCES[part](web), least) for part, least in conditions]
    expected = [float(all(part[p] >= least for part, least in parts)) for p in web.pages]
    assert 0 < sum(expected) < 150
    assert importance_of(repository_of(web), name, topic=TOPIC).tolist() == expected


def test_location_counts_a_string_as_a_word_or_wherever_a_url_contains_it():
    urls = ["http://a.test/home", "http://homepages.test/", "http://a.test/Home-1", "http://b.test"]
    repository = repository_from([[], [], [], []], urls=dict(enumerate(urls)))
    assert importance_of(repository, "location").tolist() == [1, 0, 1, 0]
    as_in_the_paper = importance_of(repository, "location", options={"whole_words": False})
    assert as_in_the_paper.tolist() == [1, 1, 1, 0]
    with pytest.raises(ConfigError, match="whole_words is 1; give True or False"):
        make_importance("location", {"location": {"whole_words": 1}})


OWN = '''
import numpy as np
from crawlprio import Importance

class Long(Importance):
    """Pages with long URLs."""

    def __init__(self, power=1):
        self.power = power

    def of(self, repository):
        return [len(url) ** self.power for url in repository.graph.urls]

class Named(Long):
    needs_topic = True

    def __init__(self, topic):
        self.topic = topic

    def of(self, repository):
        return np.array([float(self.topic.terms[0] in url) for url in repository.graph.urls])

class Fails(Importance):
    def of(self, repository):
        return 1 / 0

class Short(Importance):
    def of(self, repository):
        return [1.0]

class Negative(Long):
    def of(self, repository):
        return -np.ones(repository.graph.n_pages)

class Unknown(Long):
    def of(self, repository):
        return np.full(repository.graph.n_pages, np.nan)

class Words(Long):
    def of(self, repository):
        return ["much"] * repository.graph.n_pages

class NoRule(Importance):
    pass

class Refuses(Importance):
    def __init__(self, power=1):
        raise KeyError("power")

    of = None

class Stranger:
    pass

number = 1
'''


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def (:", "SyntaxError: invalid syntax (broken_metrics.py, line 1)"),
        ("raise RuntimeError('no\\nway')", "RuntimeError: no way"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
    ],
)
@pytest.mark.parametrize("kind", ["Importance", "ORDERING"])
def test_a_module_that_fails_when_it_is_imported_is_one_sentence(
    tmp_path, monkeypatch, kind, code, reason
):
    (tmp_path / "broken_metrics.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    make = {"Importance": make_importance, "ORDERING": make_ordering}[kind]
    with pytest.raises(ConfigError) as caught:
        make("broken_metrics.Mine")
    assert str(caught.value) == (
        f"{kind} is 'broken_metrics.Mine', whose module raises an error when it is imported "
        f"({reason}); fix the module."
    )


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of a user's own in the working folder, which cannot be imported from elsewhere."""
    (tmp_path / "my_metrics.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield "my_metrics"
    sys.modules.pop("my_metrics", None)


def test_an_importance_of_ones_own_is_named_by_its_import_path(own):
    web = power_law_web(40, 3)
    web.urls = {page: f"http://a.test/{'x' * page}" for page in web.pages}
    repository = repository_of(web)
    lengths = [float(len(web.urls[page])) for page in web.pages]
    assert importance_of(repository, f"{own}.Long").tolist() == lengths
    squares = importance_of(repository, f"{own}.Long", options={"power": 2})
    assert squares.tolist() == [n**2 for n in lengths]
    backlinks = importance_of(repository, "backlinks")
    both = importance_of(repository, f"2*{own}.Long + backlinks")
    assert both.tolist() == (2 * np.array(lengths) + backlinks).tolist()
    are_long = importance_of(repository, f"{own}.Long>=30")
    assert are_long.tolist() == [float(n >= 30) for n in lengths]
    assert importance_of(repository, f"{own}.Named", topic="xxx").sum() == 37


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Fails", "Importance my_metrics.Fails: of raised ZeroDivisionError: division by zero; fix "
         "it, or choose another importance."),
        *((name, f"Importance my_metrics.{name}: of must return a finite number of 0 or more for "
           "each of 40 pages, and does not; fix it.") for name in ("Short", "Negative", "Unknown")),
        ("Words", "Importance my_metrics.Words: of raised ValueError: could not convert string to "
         "float: 'much'; fix it, or choose another importance."),
        ("NoRule", "Importance my_metrics.NoRule cannot be created: it raised TypeError: Can't"),
        ("Refuses", "Importance my_metrics.Refuses cannot be created: it raised KeyError: 'power'"),
        ("Stranger", "Importance is 'my_metrics.Stranger', which is not a subclass of "
         "crawlprio.Importance; make it one."),
        ("number", "Importance is 'my_metrics.number', which is not a subclass of"),
        ("Absent", "Importance is 'my_metrics.Absent', which cannot be imported (module"),
        ("Named", "Importance my_metrics.Named needs a topic;"),
        ("Long+", "Importance 'my_metrics.Long+' cannot be parsed at '';"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_importance_of_ones_own_is_one_sentence(own, name, sentence):
    web = power_law_web(40, 3)
    web.urls = {page: f"http://a.test/{page}" for page in web.pages}
    with pytest.raises(CrawlprioError) as caught:
        importance_of(repository_of(web), f"{own}.{name}")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_crawls_share_of_a_scaled_sum_is_the_weighted_average_of_the_parts_shares():
    repository = repository_of(power_law_web(150, 8))
    order = np.random.default_rng(8).permutation(150)[:60]

    def gathered(name):
        scored = score(name, make_importance(name), repository, order)
        return list(scored.order.gathered_at)

    both = zip(gathered("pagerank"), gathered("backlinks"), strict=True)
    assert gathered("scaled:3*pagerank+backlinks") == pytest.approx(
        [0.75 * a + 0.25 * b for a, b in both]
    )


def test_a_part_that_is_0_everywhere_adds_nothing():
    repository = repository_from([[1], [2], []])
    for name, least in (("backlinks+term-count", 1), ("scaled:backlinks+term-count", 1.5)):
        values = importance_of(repository, name, topic="absent")
        assert values.tolist() == pytest.approx([0, least, least])


def test_importance_by_links_needs_only_a_graph():
    repository = repository_of(power_law_web(100, 9))
    assert importance_of(repository.graph).tolist() == importance_of(repository).tolist()


BARE = Repository(LinkGraph(np.array([0, 1, 1]), np.array([1])), "bare.npz")

BAD = [
    ("backlinks>=1+pagerank", {}, None, "cannot be parsed at 'backlinks>=1+pagerank'"),
    ("scaled:backlinks>=1", {}, None, "cannot be parsed at 'scaled:backlinks>=1'"),
    ("backlinks>=much", {}, None, "cannot be parsed at 'backlinks>=much'"),
    ("backlinks&pagerank", {}, None, "cannot be parsed at 'backlinks&pagerank'"),
    ("absent.Mine", {}, None, "Importance is 'absent.Mine', which cannot be imported (No module"),
    ("os.path", {}, None, "Importance is 'os.path', which is not a subclass"),
    ("pagerank2", {}, None, "Importance 'pagerank2' cannot be parsed at 'pagerank2'"),
    ("page-rank", {}, None, "Importance 'page-rank' is unknown; known importances: authorities,"),
    ("", {}, None, "Importance '' cannot be parsed at ''"),
    ("pagerank+", {}, None, "cannot be parsed at ''"),
    ("-1*pagerank", {}, None, "cannot be parsed at '-1*pagerank'"),
    ("0*pagerank", {}, None, "gives pagerank the weight 0; leave it out."),
    ("pagerank", {"damping": 1}, None, "damping is 1; give a number of 0 or more, below 1."),
    ("pagerank", {"damping": "d"}, None, "Options of importance pagerank: damping is 'd'"),
    ("cho-pagerank", {"damping": True}, None, "importance cho-pagerank: damping is True"),
    ("pagerank", {"d": 0.5}, None, "Importance pagerank has no option 'd'; known options: damping"),
    ("backlinks", {"d": 0.5}, None, "Importance backlinks has no option 'd'; it has no options."),
    ("location", {"slashes": "x"}, None, "Options of importance location: slashes is 'x'"),
    ("location", {}, None, "bare.npz has no URLs, which the importance location needs"),
    ("remote-pagerank", {}, None, "bare.npz has no links between sites"),
    ("weighted-pagerank", {"times": 0}, None, "times is 0; give a number above 0."),
    ("weighted-pagerank", {"share": 1}, None, "share is 1; give a number of 0 or more, below 1."),
    ("similarity", {}, None, "Importance similarity needs a topic; give comma"),
    ("similarity", {}, "web", "bare.npz has no texts, which the importance similarity needs"),
    ("similarity", {"idf": "tf"}, "web", "idf is 'tf'; give one of log, inverse, none."),
    ("similarity", {"topic": "x"}, "web", "Importance similarity has no option 'topic'"),
    ("term-count", {"title": -1}, "web", "title is -1; give a number of 0 or more."),
    ("harmonic", {"sample": 0}, None, "sample is 0; give a whole number of 1 or more."),
    ("harmonic", {"seed": 0.5}, None, "seed is 0.5; give a whole number of 0 or more."),
]


@pytest.mark.parametrize(("name", "options", "topic", "sentence"), BAD)
def test_impossible_input_is_refused_in_one_sentence(name, options, topic, sentence):
    with pytest.raises(CrawlprioError) as caught:
        importance_of(BARE, name, options=options, topic=topic)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", IMPORTANCES)
def test_every_importance_describes_itself_and_takes_its_options_by_name(name):
    assert (IMPORTANCES[name].__doc__ or "").split("\n")[0].endswith(".")
    with pytest.raises(ConfigError, match="has no option 'nonsense'"):
        make_importance(name, {name: {"nonsense": 1}}, TOPIC)
    assert "topic" not in option_names(name)


# Data from a crawl store.


@pytest.fixture
def store(tmp_path):
    """Pages 0 to 7, fetched in the order 0 2 1 3 2; 3 failed, 4 to 7 were only seen."""
    links = {0: [1, 2, 3], 2: [4, 5], 1: [2], 6: [7]}
    web = Web(links=links, urls={p: f"http://a.test/{p}" for p in range(8)})
    pages = WebPages(web)
    with Store.create(tmp_path / "crawl.sqlite") as store:
        store.record(pages.seeds([0, 6]), pages)
        ids = {number: at for at, number in enumerate([0, 6, 1, 2, 3, 4, 5])}

        def record(number, targets, **facts):
            found = np.array(pages.find_or_add(targets), dtype=np.int32)
            store.record(Visit(ids[number], found, **facts), pages)

        record(0, [1, 2, 3], title="Home", text="the frontier")
        record(2, [1], text="frontier frontier frontier")
        record(1, [2], title="Frontier")
        record(3, [], status=404, error="404")
        record(2, [4, 5], text="frontier")
        store.set_meta("ordering", "opic")
        store.set_meta("topic", "frontier")
    return tmp_path / "crawl.sqlite"


def test_a_store_has_the_order_of_first_visits_and_the_texts_and_links_of_last_visits(store):
    crawl = open_repository(store)
    assert crawl.order.tolist() == [0, 3, 2, 4]
    assert crawl.fetched().tolist() == [True, False, True, True, True, False, False]
    assert (crawl.n_failed, crawl.ordering, crawl.topic) == (1, "opic", "frontier")
    assert list(crawl.texts) == [
        (0, "Home", "the frontier"),
        (2, "Frontier", ""),
        (4, "", ""),
        (3, "", "frontier"),
    ]
    assert list(crawl.texts) == list(crawl.texts)
    assert importance_of(crawl, "term-count", topic="frontier").tolist() == [1, 0, 10, 1, 0, 0, 0]
    assert importance_of(crawl, "backlinks").tolist() == [0, 0, 1, 2, 1, 1, 1]


def test_visits_recorded_after_a_store_was_opened_change_nothing(store):
    crawl = open_repository(store)
    before = list(crawl.texts)
    with Store.open(store) as again:
        pages = again.load_pages()
        again.record(Visit(0, np.empty(0, dtype=np.int32), text="frontier"), pages)
        again.record(Visit(5, np.empty(0, dtype=np.int32), text="frontier"), pages)
    assert [page for page in crawl.texts if page not in before] == []
    assert [page.page for page in open_repository(store).texts or ()] == [2, 4, 3, 0, 5]


def test_a_crawl_without_a_topic_is_reported_as_having_only_titles(tmp_path, store):
    topical = make_importance("similarity", topic=TOPIC)
    assert topical.remarks(open_repository(store)) == []
    web = Web(links={0: [1]}, urls={0: "http://a.test/", 1: "http://a.test/1"})
    web.titles = {0: "The frontier", 1: "Shop"}
    pages = WebPages(web)
    with Store.create(tmp_path / "plain.sqlite") as plain:
        plain.record(pages.seeds([0]), pages)
        plain.record(pages.visit(0), pages)
        plain.record(pages.visit(1), pages)
    repository = open_repository(tmp_path / "plain.sqlite")
    (remark,) = topical.remarks(repository)
    assert "has no page texts because it was crawled without TOPIC" in remark
    assert topical.of(repository).tolist() == pytest.approx([1 / np.sqrt(2), 0.0])


# The quality of an order.


def test_an_order_of_a_graph_is_judged_by_its_reachable_pages():
    # Page 3 cannot be reached from 0, 1 and 2: backlinks 0 1 2 of 3, one of them on page 2.
    repository = repository_from([[1, 2], [2], [], [2]])
    scored = score("backlinks", make_importance("backlinks"), repository, [0, 1])
    assert scored.known.tolist() == [True, True, True, False]
    random = scored.random()
    assert scored.order.curve == [[0, 0], [1 / 3, 0], [2 / 3, 1 / 4]]
    assert scored.order.average == 1 / 8
    assert scored.bound.curve == [[0, 0], [1 / 3, 3 / 4], [2 / 3, 1]]
    assert random.curve == [[0, 0], [1 / 3, 1 / 3], [2 / 3, 2 / 3]]
    assert scored.order.gathered_at == (0.0, 0.0, 0.0, 1 / 4)
    assert len(MARKS) == len(scored.order.gathered_at)
    # First 0, then 1, then 2, which was not fetched; by importance 2, 1, 0.
    assert scored.kendall_tau == pytest.approx(-1)
    assert scored.top() == [2, 1, 0]


def test_all_seen_pages_count_but_only_fetched_ones_by_content(store):
    crawl = open_repository(store)
    by_links = score("backlinks", make_importance("backlinks"), crawl)
    assert (by_links.n_known, by_links.fetched) == (7, 4)
    by_content = score("forward-links", make_importance("forward-links"), crawl)
    assert (by_content.n_known, by_content.fetched) == (4, 4)
    assert by_content.order.gathered_at[-1] == 1.0
    assert "known for fetched pages only" in by_content.remarks[-1]
    both = make_importance("scaled:forward-links+backlinks")
    assert both.of_content
    assert make_importance("forward-links>=1&backlinks>=1").of_content
    assert score("sum", both, crawl).n_known == 4
    # Of the fetched pages 0 2 3 4, the means are 6/4 links and 4/4 backlinks.
    assert both.of(crawl)[[0, 2, 3, 4]].tolist() == pytest.approx([2, 5 / 3, 10 / 3, 1])


def test_pages_with_unknown_content_drop_out_of_an_order_judged_by_content(store):
    crawl = open_repository(store)
    scored = score("forward-links", make_importance("forward-links"), crawl, [0, 1, 6, 3])
    assert scored.fetched == 2
    assert scored.known.tolist() == [True, False, True, True, True, False, False]
    # Page 0 has three links, page 3 two, page 2 one, page 4 none.
    assert scored.order.gathered_at[-1] == 5 / 6


def test_importance_that_is_zero_everywhere_makes_no_order_better(store):
    scored = score(
        "term-count", make_importance("term-count", topic=Topic("x")), open_repository(store)
    )
    assert (scored.order, scored.fetched) == (None, 4)
    assert scored.remarks[-1].startswith("No page has any importance by term-count")
    assert scored.as_json(None)["distribution"]["top_1_percent"] is None


def test_the_best_order_attains_the_bound_and_a_tau_of_one():
    repository = repository_from([[1, 2, 3], [2, 3], [3], []])
    scored = score("backlinks", make_importance("backlinks"), repository, [3, 2, 1, 0])
    # Nothing else is reached from page 3 alone, but page 0 is in the order.
    assert scored.n_known == 4
    assert scored.order.as_json() == scored.bound.as_json()
    assert scored.kendall_tau == 1.0


def test_a_distribution_describes_how_uneven_importance_is():
    rows = [[1]] * 200
    rows[1] = []
    scored = score("backlinks", make_importance("backlinks"), repository_from(rows))
    spread = scored.distribution()
    assert spread == {
        "total": 199.0,
        "mean": 199 / 200,
        "median": 0.0,
        "least": 0.0,
        "most": 199.0,
        "zero": 199 / 200,
        "top_1_percent": 1.0,
    }
