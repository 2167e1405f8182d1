"""The texts that a crawl keeps: what is known of each, once per page after any kills, and files."""

import json
import random
from datetime import UTC, datetime

import duckdb
import pytest
from commands import refusal, run_command
from crawls import ADDON, run_spider
from kept_crawls import ENGLISH, FRENCH, GERMAN, crawl, rows
from spiders import Follower
from stores import query, record_visits, table, visit

from crawlprio import read
from crawlprio.demo.web import VOCABULARY
from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE
from crawlprio.items import TextNotes
from crawlprio.measure.arrow_tables import TEXT_COLUMNS
from crawlprio.plugins.value.kept_texts import KeptText, first_pages, kept_texts
from crawlprio.plugins.value.model import LEAST, language_of
from crawlprio.store import Store
from crawlprio.web.html import parse_page


def expected(host):
    """Return the rows of a breadth-first crawl of `WEB`, without the times."""
    nothing = dict.fromkeys(KeptText._fields[:-1]) | {"title": ""}
    return [
        {**nothing, **row, "url": f"{host}{path}"}
        for path, row in {
            "/": {
                **{"title": "Dogs", "text": ENGLISH, "language": "en"},
                **{"declared_language": "en-GB", "licence": f"{host}/terms"},
            },
            "/1": {
                **{
                    "text": f"{GERMAN} CC BY",
                    "language": "de",
                    "licence": "https://license.test/by",
                },
                **{"x_robots_tag": "noai", "meta_robots": "noarchive"},
                **{"content_usage": "train-ai=n"},
            },
            "/2": {"text": FRENCH, "language": "fr", "declared_language": "fr"},
            "/3": {
                **{"text": ENGLISH.upper(), "near_duplicate_of": f"{host}/"},
                "language": language_of(ENGLISH.upper()),
            },
            "/4": {"text": "too short"},
        }.items()
    ]


def export(store, file):
    assert run_command("texts", "export", str(store), str(file)) == 0


class Plain(Follower):
    links = "nav a"


@pytest.mark.slow
def test_each_page_is_kept_with_what_is_known_of_its_text(tmp_path):
    crawl(tmp_path / "site.sqlite")
    assert rows(tmp_path / "site.sqlite") == expected("http://a.test")
    crawl(tmp_path / "plain.sqlite", Plain)
    assert rows(tmp_path / "plain.sqlite") == expected("http://a.test")


@pytest.mark.slow
def test_the_usual_tools_read_the_same_rows_from_either_file(path, tmp_path, capsys):
    import pandas  # takes a second, which each process of a run would pay
    import polars

    crawl(path, CRAWLPRIO_VALUE="words:wald")
    table = read(path).texts.arrow().to_pylist()
    assert [row["value"] for row in table] == [0.0, 0.1, 0.0, 0.0, 0.0]
    export(path, tmp_path / "pages.parquet")
    export(path, tmp_path / "pages.jsonl")
    assert f"{tmp_path}/pages.jsonl: the texts of 5 pages" in capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    for row in lines:
        row["fetched_at"] = datetime.fromisoformat(row["fetched_at"])
    exact = [
        row | {"fetched_at": row["fetched_at"].replace(microsecond=ms // 1000 * 1000)}
        for row in table
        for ms in [row["fetched_at"].microsecond]
    ]
    assert lines == exact
    urls = [row["url"] for row in table]
    assert polars.read_parquet(tmp_path / "pages.parquet").to_dicts() == table
    assert pandas.read_parquet(tmp_path / "pages.parquet")["url"].tolist() == urls
    for file in ("pages.parquet", "pages.jsonl"):
        found = duckdb.sql(f"SELECT url, text FROM '{tmp_path / file}'").fetchall()
        assert found == [(row["url"], row["text"]) for row in table]
    assert table[0]["fetched_at"].tzinfo is not None
    assert abs(datetime.now(UTC) - table[0]["fetched_at"]).total_seconds() < 600


def test_a_crawl_that_does_not_keep_texts_has_no_table_of_them(tmp_path):
    crawl(tmp_path / "crawl.sqlite", CRAWLPRIO_KEEP_TEXT=False)
    tables = "SELECT 1 FROM sqlite_schema WHERE name = 'text_notes'"
    assert query(tmp_path / "crawl.sqlite", tables) == []
    assert rows(tmp_path / "crawl.sqlite") == []


def test_the_languages_of_texts_are_told_and_those_of_short_ones_are_not():
    texts = {
        "de": GERMAN,
        "en": ENGLISH,
        "fr": FRENCH,
        "ja": "犬が森の中を走り、そこでウサギを見つけるが、ウサギはすぐに姿を消してしまう。" * 2,
        "ru": "Собака бежит по лесу и видит там зайца, который мгновенно исчезает из виду.",
        "zxx": "1234 5678 -- 90 ++ 1234 == 5678 !! 90 .. 1234 .. 567",
    }
    assert [language_of(text) for text in texts.values()] == list(texts)
    assert language_of(GERMAN[: LEAST - 1]) == ""
    assert language_of(f"\ud800 {ENGLISH}") == "en"


def test_licences_and_the_language_are_read_from_pages_with_text_only():
    links = "".join(f"<a rel='license x' href='/{n % 7}#{n}'>terms</a>" for n in range(9))
    body = f"<html lang='{'de ' * 50}'>{links}<a rel=license href='mailto:a@b'>".encode()
    page = parse_page(body, "http://a.test/", want_text=True)
    assert page.licences == [f"http://a.test/{n}" for n in range(5)]
    assert page.language == ("de " * 50)[:35]
    page = parse_page(body, "http://a.test/")
    assert (page.licences, page.language) == ([], "")


def test_each_short_text_names_the_first_page_that_had_it():
    choose = random.Random(7)
    texts = [choose.choice(["one", "One", "ONE", "two", "straße", "STRASSE"]) for _ in range(50)]
    pages = [(3 * n, text.encode()) for n, text in enumerate(texts)]
    first = {}
    slow = []
    for page, text in zip(range(0, 150, 3), texts, strict=True):
        slow.append(first.get(text.casefold(), NO_PAGE))
        first.setdefault(text.casefold(), page)
    assert first_pages(pages).tolist() == slow


def test_a_text_that_differs_in_a_few_words_names_the_first_page_and_another_does_not():
    choose = random.Random(8)
    originals = [" ".join(choose.choices(VOCABULARY["chess"], k=600)) for _ in range(20)]
    pages = []
    for n, text in enumerate(originals):
        words = text.split()
        words[choose.randrange(600)] = "elsewhere"
        for at, variant in enumerate((text, " ".join(words), text.title())):
            pages.append((100 * at + n, variant.encode()))
    choose.shuffle(pages)
    first = {}
    expected = []
    for page, _ in pages:
        expected.append(first.get(page % 100, NO_PAGE))
        first.setdefault(page % 100, page)
    assert first_pages(pages).tolist() == expected
    assert first_pages([]).tolist() == []


def test_a_page_that_was_fetched_twice_has_the_text_of_its_last_visit(tmp_path):
    visits = [
        visit(page, text=text, extras={"text_notes": TextNotes("en")} if text else {})
        for page, text in ((0, "old"), (1, "new"), (2, "gone"), (0, "New"), (2, ""))
    ]
    pages = table(*(f"http://a.test/{n}" for n in range(3)))
    path = record_visits(tmp_path / "crawl.sqlite", pages, *visits)
    with Store.open(path, readonly=True) as store:
        found = list(kept_texts(store))
    assert [(kept.url, kept.text, kept.near_duplicate_of) for kept in found] == [
        ("http://a.test/1", "new", None),
        ("http://a.test/0", "New", "http://a.test/1"),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE text_notes SET language = x'00'",
        "UPDATE visits SET text = x'00'",
        "UPDATE visits SET page = 9",
        "DROP TABLE text_notes; CREATE VIEW text_notes AS SELECT 1 AS seq, 'en' AS language",
    ],
)
def test_a_damaged_text_is_one_sentence(sql, tmp_path):
    with Store.create(tmp_path / "crawl.sqlite") as store:
        noted = visit(0, text="text", extras={"text_notes": TextNotes("en")})
        store.record(noted, table("http://a.test/"))
        store._db.executescript(sql)
    with (
        Store.open(tmp_path / "crawl.sqlite", readonly=True) as store,
        pytest.raises(StoreError, match="damaged"),
    ):
        list(kept_texts(store))


def test_texts_need_a_store():
    run = run_spider(Plain, {**ADDON, "CRAWLPRIO_STORE": None, "CRAWLPRIO_KEEP_TEXT": True})
    assert "there is no store to keep texts in" in "".join(run.messages())


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (["export", "crawl.sqlite"], ["expected", "export STORE"]),
        (["export", "crawl.sqlite", "pages.csv"], ["pages.csv", ".parquet or .jsonl"]),
        (["export", "none.sqlite", "none/pages.jsonl"], ["none.sqlite", "no such crawl store"]),
        (["export", "none.sqlite", "pages.jsonl"], ["none.sqlite", "no such crawl store"]),
        (["export", "none.sqlite", "pages.parquet"], ["none.sqlite", "no such crawl store"]),
    ],
)
def test_bad_input_of_the_command_gets_one_sentence(line, names, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    said = refusal(capsys, "texts", *line)
    assert all(name in said for name in names), said
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_texts_has_a_column_for_each_field_of_a_kept_text():
    assert KeptText._fields == TEXT_COLUMNS
