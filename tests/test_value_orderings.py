"""Orderings that rank by value: against oracles, live against simulated, resumed, and reported."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from commands import run_command
from crawls import ONE_AT_A_TIME, Answer, run_spider
from oracles import value as oracle
from stores import visited_pages

from crawlprio.errors import ConfigError
from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import BY_VALUE, KeyHistory, make_ordering
from crawlprio.plugins.value.model import ValueModelError, page_of
from crawlprio.plugins.value.models import make_model
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

SEED = 20261123
N_PAGES = 60
WORDS = ("rook", "knight", "bread", "flour", "index", "about")
ENDS = ("", "?q=1")
POLICIES = {
    "best-first": lambda: oracle.best_first,
    "parent-quality": lambda: oracle.parent_quality,
    "value": oracle.Learned,
    "value-and-importance": oracle.LearnedAndImportant,
}


def random_web(seed):
    """Return a web of three hosts, in which words of a page's URL and links hint at its value."""
    draw = random.Random(seed)
    words = [draw.choice(WORDS) for _ in range(N_PAGES)]
    urls = [
        f"http://{draw.choice('abc')}.test/{draw.choice(WORDS)}/{word}{n}{draw.choice(ENDS)}"
        for n, word in enumerate(words)
    ]
    links = {
        page: [
            (target, draw.choice(["", f"{words[target]} {draw.choice(WORDS)}"]))
            for target in draw.sample(range(N_PAGES), draw.randint(0, 7))
            if target != page
        ]
        for page in range(N_PAGES)
    }
    statuses = [draw.choice([200, 200, 200, 200, 301, 404]) for _ in range(N_PAGES)]
    values = [
        None if status != 200 else draw.choice([0.0, 0.25, 1.0]) if word == "rook" else 0.0
        for word, status in zip(words, statuses, strict=True)
    ]
    titles = [f"{word} {draw.choice(WORDS)}" for word in words]
    texts = [f"{word} {draw.choice(WORDS)}, {draw.choice(WORDS)}" for word in words]
    return oracle.ValuedWeb(links, urls, values, statuses, titles, texts)


def judge(text):
    """Return what a short text promises, in two classes of five."""
    return 0.7 * ("rook" in text) + 0.2 * ("index" in text)


def crawl(web, seeds, name, judge=None, options=None):
    """Return the order of the frontier, in pages of the web."""
    ordering = make_ordering(name, options)
    ordering.judge = judge
    return crawl_with(ordering, web, seeds)[0]


def crawl_with(ordering, web, seeds, followed=NO_PAGE):
    """Crawl with an ordering; explain the key of a page, by its number in order of discovery."""
    table, of_web = PageTable(), list(seeds)
    table.site("any")
    ids = {page: table.add(web.urls[page], web.urls[page], 0) for page in seeds}
    queue = PageQueue(ordering, table)
    history = KeyHistory(ordering, followed)
    queue.observe(Visit(NO_PAGE, np.arange(len(seeds), dtype=np.int32)))
    history.after()
    order = []
    while (page := queue.next_page(0.0)) != NO_PAGE:
        found = of_web[page]
        order.append(found)
        for target, _ in web.links[found]:
            if target not in ids:
                ids[target] = table.add(web.urls[target], web.urls[target], 0)
                of_web.append(target)
        targets = np.array([ids[target] for target, _ in web.links[found]], dtype=np.int32)
        anchors = [anchor for _, anchor in web.links[found]]
        status, value = web.statuses[found], web.values[found]
        title, text = web.titles[found], web.texts[found]
        visit = Visit(page, targets, anchors, status=status, title=title, text=text)
        if value is not None:
            visit = visit._replace(extras={"page_values": (value,)})
        queue.observe(visit)
        history.after()
        queue.release(page)
    return order, ordering.explain_history(history)


@pytest.mark.parametrize("name", BY_VALUE)
def test_pages_are_fetched_in_the_order_of_the_oracle(name):
    for seed in range(SEED, SEED + 4):
        print("seed", seed)
        web = random_web(seed)
        seeds = random.Random(seed).sample(range(N_PAGES), 3)
        order = crawl(web, seeds, name)
        assert order == oracle.crawl(web, seeds, POLICIES[name]())
        assert len(order) > N_PAGES / 2


@pytest.mark.parametrize(
    ("name", "learned", "options"),
    [
        ("value", oracle.Learned, {}),
        ("value", oracle.Learned, {"discovery": 0.0, "explore": 1.0}),
        ("value-and-importance", oracle.LearnedAndImportant, {}),
    ],
)
def test_what_the_model_says_of_links_counts_as_in_the_oracle(name, learned, options):
    differ = 0
    for seed in range(SEED, SEED + 4):
        print("seed", seed)
        web = random_web(seed)
        seeds = random.Random(seed).sample(range(N_PAGES), 3)
        order = crawl(web, seeds, name, judge, options)
        assert order == oracle.crawl(web, seeds, learned(judge, **options))
        differ += order != crawl(web, seeds, name)
    assert differ == 4


@pytest.mark.parametrize(("name", "n_parts"), [("value", 14), ("value-and-importance", 15)])
def test_the_parts_of_a_key_add_up_to_it(name, n_parts):
    web = random_web(SEED)
    for page in range(N_PAGES // 2):
        ordering = make_ordering(name)
        ordering.judge = judge
        _, part = crawl_with(ordering, web, [0, 1, 2], followed=page)
        assert part.adds_up()
        assert part.amount == ordering.keys[page]
        assert len(part.parts) == n_parts


def hub_of_rooks_and_bread():
    """A hub links to 40 pages of one folder; only anchor texts tell good from bad."""
    links = {0: [(n, "rook" if n % 2 else "bread") for n in range(1, 41)]}
    links |= {n: [] for n in range(1, 41)}
    return oracle.ValuedWeb(
        links,
        ["http://a.test/", *(f"http://a.test/x/{n:02}" for n in range(1, 41))],
        [0.0, *(float(n % 2) for n in range(1, 41))],
        [200] * 41,
        [""] * 41,
        [""] * 41,
    )


def test_the_parts_of_a_key_say_which_words_and_which_pages_spoke_for_it():
    ordering = make_ordering("value")
    ordering.judge = judge
    crawl_with(ordering, hub_of_rooks_and_bread(), [0])
    said = [part.parts[0].what for part in ordering.explain(39).parts if part.parts]
    assert said[0] == "log-odds of the mean value of all pages: worth 0.49 on average, 41 fetched"
    assert "evidence of its folder: worth 0.50 on average, 40 fetched" in said
    assert "evidence of its URL pattern: worth 0.50 on average, 40 fetched" in said
    assert any(
        what.startswith("evidence of the words of its anchor text: rook (worth 1.00 on average, 20")
        for what in said
    )
    assert any(
        what.endswith("anchor texts: 4 of 5, worth 1.00 on average, 20 fetched") for what in said
    )


def test_a_model_says_what_a_text_promises_if_it_can():
    judge = make_model("words:rook, white knight").judge
    assert [judge("the white knight"), judge("a knight"), judge("")] == [1.0, 0.0, 0.0]
    judge = make_model("query:rook knight").judge
    assert [judge("Rook, knight"), judge("a rook"), judge("bread")] == [1.0, 0.5, 0.0]
    judge = make_model("language:de:words:springer").judge
    assert [judge("Der Springer"), judge("bread")] == [1.0, 0.0]
    assert make_model("test_value_orderings.WholePages").judge is None
    with pytest.raises(ValueModelError, match=r"answered 2, .* at the text 'rook'"):
        make_model("test_value_orderings.Excited").judge("rook")
    with pytest.raises(ValueModelError, match="raised KeyError: 'rook'"):
        make_model("test_value_orderings.Broken").judge("rook")


class WholePages:
    def score_page(self, page):
        return 0.5


class Excited(WholePages):
    def score_text(self, text):
        return 2


class Broken(WholePages):
    def score_text(self, text):
        raise KeyError(text)


GOOD, BAD = "rook knight rook", "bread flour bread"


def text_page(number):
    """Return one of the pages of a tree, every third of which is about chess."""
    links = [child for child in (3 * number + 1, 3 * number + 2, 3 * number + 3) if child < 60]
    anchors = "".join(
        f'<a href="/{"chess" if child % 3 == 0 else "bread"}/{child}">{WORDS[child % 6]}</a>'
        for child in links
    )
    text = GOOD if number % 3 == 0 else BAD
    return Answer(
        f"<title>{number}</title><p>{text}</p>{anchors}", headers={"Content-Type": "text/html"}
    )


def live(store, name, **settings):
    def answer(host, path):
        number = path.rpartition("/")[2] or "0"
        return text_page(int(number)) if number.isdigit() else None

    given = {
        **ONE_AT_A_TIME,
        "ADDONS": {"crawlprio.Addon": 500},
        "ORDERING": name,
        "CRAWLPRIO_STORE": str(store),
        "CRAWLPRIO_VALUE": "words:rook",
        **settings,
    }
    run = run_spider(SiteSpider, given, site=({}, answer), seeds="http://a.test/")
    assert run.messages() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_VALUE)
def test_the_live_order_is_the_simulated_one_and_that_of_a_resumed_crawl(name, tmp_path):
    live(tmp_path / "crawl.sqlite", name)
    order = visited_pages(tmp_path / "crawl.sqlite")
    assert len(order) == 60
    recorded = RecordedVisits(tmp_path / "crawl.sqlite", with_texts=True)
    graph = read_graph(tmp_path / "crawl.sqlite")
    ordering = make_ordering(name)
    ordering.judge = make_model("words:rook").judge
    assert crawl_order(graph, [0], ordering, recorded=recorded).tolist() == order
    for n_pages in (17, 0):
        job = {"JOBDIR": str(tmp_path / "job"), "CLOSESPIDER_PAGECOUNT": n_pages}
        live(Path("crawl.sqlite"), name, **job)
    assert visited_pages(tmp_path / "job" / "crawl.sqlite") == order


@pytest.mark.slow
def test_simulate_reports_the_value_that_each_ordering_finds(path, tmp_path, capsys):
    live(path, "breadth-first")
    figures = tmp_path / "figures.json"
    line = [str(path), "--value", "words:rook", "--starts", "2", "--json", str(figures)]
    orderings = ["--ordering", "omniscient", "--ordering", "breadth-first", "--ordering", "value"]
    status = run_command(
        "simulate", *line, *orderings, "-s", "TOPIC=rook", "--plot", f"{tmp_path}/x.png"
    )
    said = capsys.readouterr().out
    assert status == 0, said
    assert (tmp_path / "x.png").stat().st_size > 0
    found = json.loads(figures.read_text())
    kinds = [(run["ordering"], run["oracle"]) for run in found["runs"]]
    assert kinds == [
        ("omniscient", True),
        ("breadth-first", False),
        ("value", False),
        ("hot-queue", False),
    ]
    # Twenty pages are worth .2 each, the others nothing; breadth-first fetches 0 to 11 first.
    model = make_model("words:rook")
    with Store.open(path, readonly=True) as opened:
        of_page = {
            v.page: model.score(page_of("", v.title, v.text))
            for v in opened.visits()
            if v.page >= 0
        }
    assert sorted(of_page.values()) == [0.0] * 40 + [0.2] * 20
    order = visited_pages(path)
    of_bfs = found["runs"][1]
    assert of_bfs["recall"]["0.2"][0] == pytest.approx(sum(of_page[p] for p in order[:12]) / 4)
    assert of_bfs["harvest"]["0.2"][0] == pytest.approx(sum(of_page[p] for p in order[:12]) / 12)
    assert all("deployable" in said for _ in kinds)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (["--ordering", "value"], ["value", "--value MODEL"]),
        (["--value", "words:rook", "--robots", "4", "--delay", "1"], ["--value", "network"]),
        (["--value", "words:rook", "--starts", "none"], ["--starts", "'none'"]),
        (["--value", "rooks"], ["'rooks'", "import path"]),
        (["--value", "words:rook"], ["no page texts"]),
    ],
)
def test_bad_input_of_simulate_gets_one_sentence(line, names, path, capsys):
    with Store.create(path) as store:
        pages = PageTable()
        pages.add("http://a.test/", "http://a.test/", pages.site("a.test"))
        store.record(Visit(0, np.empty(0, np.int32), title="rook"), pages)
    status = run_command("simulate", str(path), *line)
    said = capsys.readouterr().err.splitlines()
    assert status == 2
    assert all(name in said[-1] for name in names), said


def test_an_ordering_by_value_needs_a_model(tmp_path):
    with pytest.raises(ConfigError, match="explore is -1"):
        make_ordering("value", {"explore": -1})
    with pytest.raises(ConfigError, match="of value-and-importance: importance is -1"):
        make_ordering("value-and-importance", {"importance": -1})
    settings = {"ADDONS": {"crawlprio.Addon": 500}, "ORDERING": "value"}
    run = run_spider(SiteSpider, settings, site={}, seeds="http://a.test/")
    assert run.messages() == [
        "ORDERING is 'value', which needs to know what pages are worth; set CRAWLPRIO_VALUE "
        "(--value)."
    ]
