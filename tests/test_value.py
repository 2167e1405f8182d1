"""Value models: what they answer, how a crawl scores its pages with them, and how they fail."""

import json
import math
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from commands import refusal, run_command
from crawls import BREADTH_FIRST, ONE_AT_A_TIME, Answer, run_spider
from hypothesis import given
from hypothesis import strategies as st
from spiders import Follower
from stores import table, visit

from crawlprio.errors import ConfigError, StoreError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.plugins.value.classifier import Classifier, cross_validate, read_examples, train
from crawlprio.plugins.value.model import ValueModelError, page_of
from crawlprio.plugins.value.models import make_model
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.web.anchors import words_of
from crawlprio.web.html import parse_page

ABOUT = "the rook and the bishop of a chess opening"
OTHER = "bread is made of flour and water and salt"

TEXTS = (
    "chess openings for the patient player",
    "bread and butter",
    "the chess of bread: a chess novel about chess",
    "openings of bottles",
    "nothing",
)


def text_page(number, *links):
    """Return a page with a text, a menu with a topic word, and links."""
    anchors = "".join(f'<a href="{link}">to {link}</a>' for link in links)
    text = f"<nav>chess</nav><p>{TEXTS[number % len(TEXTS)]}</p>"
    return Answer(
        f"<title>no {number}</title>{text}{anchors}", headers={"Content-Type": "text/html"}
    )


WEB = {
    "/": text_page(0, *(f"/{n}" for n in range(1, 9))),
    **{f"/{n}": text_page(n, f"/{n % 8 + 1}", "/missing") for n in range(1, 9)},
}


def scored(store):
    """Return URL and value of each visit of a page, in order."""
    with Store.open(store, readonly=True) as opened:
        urls = list(opened.page_urls())
        return [(urls[v.page], v.value) for v in opened.visits() if v.page != NO_PAGE]


def crawl(store, model, spider=SiteSpider, **settings):
    given = {
        **BREADTH_FIRST,
        **ONE_AT_A_TIME,
        "CRAWLPRIO_STORE": str(store),
        "CRAWLPRIO_VALUE": model,
        **settings,
    }
    arguments = {"seeds": "http://a.test/"} if spider is SiteSpider else {}
    return run_spider(spider, given, site=WEB, **arguments)


def test_the_model_words_gives_1_to_the_pages_that_the_hot_queue_calls_hot():
    model, hot = (
        make_model("words:chess, machine learning"),
        HotQueue(Topic("chess, machine learning")),
    )
    for title, n in [("", 0), ("", 3), ("", 9), ("", 10), ("", 25), ("On Chess", 0)]:
        text = "chess " * n
        value = model.score(page_of("", title, text))
        assert (value == 1) == hot.is_hot(Visit(0, np.empty(0, np.int32), title=title, text=text))
        assert value == (1 if title else min(n / 10, 1))


def bm25(query, pages):
    """Return the value of the last of these pages, straight from the definition."""
    lengths = [len(re.findall(r"[^\W_]+", page.text)) for page in pages]
    words = [
        Counter(re.findall(r"[^\W_]+", f"{f'{page.title} ' * 5}{page.text}".lower()))
        for page in pages
    ]
    found = most = 0.0
    for term in dict.fromkeys(query):
        n = sum(counts[term] > 0 for counts in words)
        idf = math.log(1 + (len(pages) - n + 0.5) / (n + 0.5))
        tf, norm = words[-1][term], 0.25 + 0.75 * lengths[-1] / (sum(lengths) / len(lengths))
        found += idf * tf / (tf + 1.2 * norm)
        most += idf
    return found / most


def test_the_model_query_is_bm25_with_the_statistics_of_the_pages_so_far():
    pages = [page_of(f"http://a.test/{n}", f"no {n}", text) for n, text in enumerate(TEXTS)]
    pages.append(page_of("", "Chess", "openings"))
    model = make_model("query:Chess openings chess")
    for n, page in enumerate(pages, 1):
        assert model.score(page) == pytest.approx(bm25(["chess", "openings"], pages[:n]), abs=1e-12)
    assert model.learns


def test_a_query_of_example_pages_ranks_their_like_above_others(tmp_path):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "a.txt").write_text(f"{ABOUT} and its endgame")
    (tmp_path / "examples" / "b.html").write_text(f"<nav>salt</nav><p>{ABOUT}")
    model = make_model(f"query:@{tmp_path / 'examples'}")
    model.score(page_of("", "", OTHER))
    assert model.score(page_of("", "", ABOUT)) > 2 * model.score(page_of("", "", OTHER))


def examples(text, n):
    words = text.split()
    return [page_of("", words[k % 3], " ".join(words[k % 5 :] * (1 + k % 2))) for k in range(n)]


def test_a_classifier_tells_what_it_was_trained_for_and_reads_back_as_written(tmp_path):
    positives, negatives = examples(ABOUT, 10), examples(OTHER, 30)
    model = train(positives, negatives)
    path = tmp_path / "model.json"
    model.write(path)
    read = make_model(str(path))
    for page, least, most in ((page_of("", "", ABOUT), 0.6, 1), (page_of("", "", OTHER), 0, 0.4)):
        assert least < model.score_page(page) < most
        assert read.score(page) == pytest.approx(model.score_page(page), abs=1e-3)
    assert cross_validate(positives, negatives) == 1
    again = tmp_path / "again.json"
    train(positives, negatives).write(again)
    assert again.read_bytes() == path.read_bytes()


def test_the_fit_is_where_the_slope_of_the_stated_loss_is_zero():
    """Judged by finite differences of the loss, written out per page."""
    positives, negatives = examples(ABOUT, 2), examples(OTHER, 3)
    model = train(positives, negatives)
    bias, weights = model._bias, np.array(model._weights)

    def loss(step, word):
        shifted, moved = (bias + step, weights) if word is None else (bias, weights.copy())
        if word is not None:
            moved[word] += step
        of_model = Classifier(shifted, moved)
        total = 0.5 * float(moved @ moved)
        for pages, sign in ((positives, 1), (negatives, 0)):
            for page in pages:
                value = of_model.score_page(page)
                total -= 50 / len(pages) * math.log(value if sign else 1 - value)
        return total

    for word in (None, int(np.argmax(weights)), int(np.argmin(weights))):
        assert abs(loss(1e-4, word) - loss(-1e-4, word)) / 2e-4 < 1e-2


def test_examples_come_from_csv_from_a_store_and_from_urls_in_it(tmp_path):
    table = tmp_path / "pages.csv"
    table.write_text('title,text\nA,"one, two\nthree"\n,\nB,four\n')
    assert [page[:3] for page in read_examples(table)] == [
        ("", "A", "one, two\nthree"),
        ("", "B", "four"),
    ]
    crawl(tmp_path / "crawl.sqlite", "words:chess")
    assert len(read_examples(tmp_path / "crawl.sqlite")) == 9
    urls = tmp_path / "urls.txt"
    urls.write_text("http://a.test/4\nhttp://a.test/none\n\nhttp://a.test/2\n")
    found = read_examples(urls, tmp_path / "crawl.sqlite")
    assert [page.url for page in found] == ["http://a.test/4", "http://a.test/2"]
    assert found[1].text.startswith(TEXTS[2])


def test_the_command_trains_a_model_from_two_folders(tmp_path, capsys):
    for folder, text in (("good", ABOUT), ("bad", OTHER)):
        (tmp_path / folder / "inner").mkdir(parents=True)
        for n, page in enumerate(examples(text, 6)):
            (tmp_path / folder / "inner" / f"{n}.txt").write_text(page.text)
    model = tmp_path / "model.json"
    assert (
        run_command("value", "train", f"{tmp_path}/good", f"{tmp_path}/bad", "-o", str(model)) == 0
    )
    assert "6 positives, 6 negatives; area under the ROC curve" in capsys.readouterr().out
    assert make_model(str(model)).score(page_of("", "", ABOUT)) > 0.6


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (["train", "good"], ["expected", "POSITIVES"]),
        (["train", "good", "empty", "-o", "m.json"], ["empty", "no page with text"]),
        (["train", "good", "none.xyz", "-o", "m.json"], ["none.xyz", "a folder"]),
        (["train", "good", "none.csv", "-o", "m.json"], ["none.csv", "cannot be read"]),
        (["train", "good", "bad.csv", "-o", "m.json"], ["bad.csv", "column text"]),
        (["train", "good", "good", "-o", "m.pickle"], ["m.pickle", "JSON"]),
    ],
)
def test_bad_input_of_the_command_gets_one_sentence(line, names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("good", "empty"):
        (tmp_path / folder).mkdir()
    (tmp_path / "good" / "a.txt").write_text(ABOUT)
    (tmp_path / "bad.csv").write_text("body\nx\n")
    said = refusal(capsys, "value", *line)
    assert all(name in said for name in names), said
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("", ["CRAWLPRIO_VALUE", "words:"]),
        ("chess", ["'chess'", "words:", "import path"]),
        ("words:", ["'words:'", "say what to look for"]),
        ("words: , ", ["no word"]),
        ("query:--", ["no word"]),
        ("none.json", ["none.json", "cannot be read"]),
        ("broken.json", ["broken.json", "not a classifier", "train one"]),
        ("other.json", ["other.json", "not a classifier"]),
        ("far.json", ["far.json", "not a classifier"]),
        ("no.such.Model", ["no.such.Model", "cannot be imported"]),
        ("value_models.NoModel", ["NoModel", "score_page"]),
        ("value_models.NeedsAnArgument", ["NeedsAnArgument", "TypeError"]),
        ("value_models.Nowhere", ["Nowhere", "'cloud'", '"thread"']),
    ],
)
def test_a_model_that_is_none_is_refused_in_one_sentence(model, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"format": "another"}')
    whole = {"format": "crawlprio value classifier 1", "bias": 0, "weights": {"70000": 1}}
    (tmp_path / "far.json").write_text(json.dumps(whole))
    with pytest.raises(ConfigError) as caught:
        make_model(model)
    assert all(name in str(caught.value) for name in names), caught.value
    assert str(caught.value).endswith(".")


def test_the_text_for_a_model_has_no_navigation():
    body = (
        b"<body><header>Top</header><nav>Menu</nav><div role='navigation'>Next <b>x</b></div>"
        b"<main>One<aside>Ad</aside> two</main><footer>Foot</footer></body>"
    )
    assert (
        parse_page(body, "http://a.test/", want_text=True).text == "Top Menu Next x One Ad two Foot"
    )
    found = parse_page(body, "http://a.test/", want_text=True, without_navigation=True)
    assert found.text == "One two"


@pytest.mark.slow
def test_each_page_of_a_crawl_is_stored_with_its_value(path):
    crawl(path, "words:chess")
    of_text = {text: min(text.count("chess"), 10) / 10 for text in TEXTS}
    values = [of_text[TEXTS[n % len(TEXTS)]] for n in range(9)]
    assert [value for _, value in scored(path)] == [*values, None]
    assert scored(path)[-1][0] == "http://a.test/missing"


@pytest.mark.slow
def test_the_pages_of_a_spider_that_yields_requests_are_scored_too(tmp_path):
    crawl(tmp_path / "own.sqlite", "words:chess", Follower)
    crawl(tmp_path / "site.sqlite", "words:chess")
    assert scored(tmp_path / "own.sqlite") == scored(tmp_path / "site.sqlite")


@pytest.mark.slow
def test_a_resumed_query_scores_as_one_that_was_never_interrupted(tmp_path):
    crawl(tmp_path / "whole.sqlite", "query:chess openings")
    for n_pages in (3, 0):
        settings = {"JOBDIR": str(tmp_path / "job"), "CLOSESPIDER_PAGECOUNT": n_pages}
        crawl(Path("crawl.sqlite"), "query:chess openings", **settings)
    assert scored(tmp_path / "job" / "crawl.sqlite") == scored(tmp_path / "whole.sqlite")


@pytest.mark.slow
def test_a_users_model_runs_off_the_event_loop_in_batches(tmp_path):
    from value_models import Batched

    crawl(
        tmp_path / "crawl.sqlite",
        "value_models.Batched",
        CONCURRENT_REQUESTS=8,
        CONCURRENT_REQUESTS_PER_DOMAIN=8,
    )
    values = dict(scored(tmp_path / "crawl.sqlite"))
    assert [values[f"http://a.test/{n or ''}"] for n in range(9)] == [0.25] * 9
    assert sum(Batched.sizes) == 9
    assert max(Batched.sizes) <= Batched.batch
    with Store.open(tmp_path / "crawl.sqlite", readonly=True) as store:
        assert store.get_meta("value_model") == "value_models.Batched"


@pytest.mark.slow
def test_a_model_in_a_process_answers_from_there_and_its_death_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # the model sets it for this process, for good
    pages = [page_of("http://a.test/", str(os.getpid()), "text")] * 3
    assert make_model("value_models.Elsewhere:yes").score_all(pages) == [1.0] * 3
    with pytest.raises(ValueModelError, match=r"its process ended, at http://a\.test/; fix"):
        make_model("value_models.Dies").score_all(pages)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "did"),
    [
        ("Raises", "raised KeyError: 'no such word', at http://a.test/"),
        ("NotANumber", "answered nan, which is not a number from 0 to 1, at http://a.test/"),
        ("TooFew", "answered 0 values for 1 pages, at http://a.test/"),
        ("Hangs", "has not answered for 0.05 seconds, at http://a.test/"),
    ],
)
def test_a_model_that_fails_ends_the_crawl_with_one_sentence(model, did, tmp_path):
    run = crawl(tmp_path / "crawl.sqlite", f"value_models.{model}")
    assert run.messages() == [
        f"value model value_models.{model}: {did}; fix the model, then resume."
    ]
    assert scored(tmp_path / "crawl.sqlite") == [("http://a.test/", None)]


def test_a_resume_asks_for_a_model_that_the_store_may_not_name(tmp_path, capsys):
    with Store.create(tmp_path / "crawl.sqlite") as store:
        store.record_pages(table("http://a.test/"), [0])
        given = {"CRAWLPRIO_VALUE": "os.Model"}
        store.set_meta("given", json.dumps({"arguments": {"seeds": ["x"]}, "settings": given}))
        store.set_meta("value_model", "os.Model")
    assert run_command("resume", str(tmp_path)) == 2
    assert "value model os.Model, and a store must not choose code" in capsys.readouterr().err


def test_a_damaged_table_of_values_is_one_sentence(tmp_path):
    for n, sql in enumerate(
        (
            "UPDATE page_values SET value = 2.0",
            "DROP TABLE page_values; CREATE VIEW page_values AS SELECT 1 AS seq, 0.5 AS value",
        )
    ):
        path = tmp_path / f"{n}.sqlite"
        with Store.create(path) as store:
            valued = visit(0, extras={"page_values": (0.5,)})
            store.record(valued, table("http://a.test/"))
            assert [visit.value for visit in store.visits()] == [0.5]
            store._db.executescript(sql)
        with Store.open(path, readonly=True) as store, pytest.raises(StoreError, match="damaged"):
            list(store.visits())


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" _-.aZé9ß\u2019\u00b6\ud800"))))
def test_words_are_runs_of_letters_and_digits(text):
    assert words_of(text) == re.findall(r"[^\W_]+", text.casefold())
