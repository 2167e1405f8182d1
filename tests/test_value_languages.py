"""The value models `language` and `fasttext`, and the language of a page for others."""

import math
import struct

import pytest
from kept_crawls import ENGLISH, FRENCH, GERMAN, crawl, rows

from crawlprio import extras
from crawlprio.errors import ConfigError
from crawlprio.live.spider_arguments import is_plain
from crawlprio.plugins.value.model import page_of
from crawlprio.plugins.value.models import make_model

PAGES = [page_of("", "Hund", text) for text in (GERMAN, ENGLISH, FRENCH, "kurz")]

WORDS = {"</s>": (0.0, 0.0), "good": (2.0, -1.0), "bad": (-1.0, 3.0), "ü": (0.5, 0.25)}
LABELS = {"hq": (1.0, 0.0), "rest": (0.0, 1.0), "odd": (-9.0, -9.0)}


def write_model(path, *, kind=3):
    """Write `WORDS` and `LABELS` as a fastText model: version 12, dense, softmax, no subwords."""
    arguments = (2, 5, 5, 1, 5, 1, 3, kind, 0, 0, 0, 100)
    n_words, n_labels = len(WORDS), len(LABELS)
    parts = [struct.pack("<2i12id", 793712314, 12, *arguments, 1e-4)]
    parts.append(struct.pack("<3i2q", n_words + n_labels, n_words, n_labels, 100, -1))
    names = [*((word, 0) for word in WORDS), *((f"__label__{name}", 1) for name in LABELS)]
    for at, (name, is_label) in enumerate(names):
        parts.append(name.encode() + b"\0" + struct.pack("<qb", 50 - at, is_label))
    for matrix in (WORDS, LABELS):
        parts.append(struct.pack("<?2q", False, len(matrix), 2))
        parts += [struct.pack("<2f", *row) for row in matrix.values()]
    path.write_bytes(b"".join(parts))


def probability(label, text):
    """Return what the model says, from fastText's definition: softmax of the mean of the words."""
    known = [WORDS[word] for word in (*text.split(), "</s>") if word in WORDS]
    mean = [sum(row[axis] for row in known) / len(known) for axis in range(2)]
    odds = {
        name: math.exp(sum(weight * part for weight, part in zip(row, mean, strict=True)))
        for name, row in LABELS.items()
    }
    return odds[label] / sum(odds.values())


def test_pages_in_other_languages_are_worth_0_and_not_seen_by_the_other_model():
    assert make_model("language:de").score_all(PAGES) == [1, 0, 0, 0]
    assert make_model("language:FR, en").score_all(PAGES) == [0, 1, 1, 0]
    assert make_model("language:de,fr:words:hund").score_all(PAGES) == [1, 0, 1, 0]
    model = make_model("language:de:query:wald")
    assert model.learns
    alone = make_model("query:wald")
    assert model.score_all(PAGES) == [alone.score(PAGES[0]), 0, 0, 0]


def test_a_model_of_ones_own_gets_the_language_if_it_asks_for_it():
    assert make_model("value_models.French").score_all(PAGES) == [0, 0, 1, 0]
    known = PAGES[0]._replace(language="fr")
    assert make_model("value_models.French").score(known) == 1


@pytest.mark.slow
def test_a_crawl_scores_its_pages_by_language(tmp_path):
    for kept in (True, False):
        store = tmp_path / f"{kept}.sqlite"
        crawl(store, CRAWLPRIO_VALUE="language:de,fr", CRAWLPRIO_KEEP_TEXT=kept)
        assert [row["value"] for row in rows(store)] == [0, 1, 1, 0, 0]


def test_a_fasttext_model_gives_the_probability_of_its_label(tmp_path):
    file = tmp_path / "model.bin"
    write_model(file)
    for text in ("good good bad", "bad\nbad", "nothing known", "ü good \ud800", "bad " * 50):
        page = page_of("http://a.test/", "good", text)
        for spec in ("hq", "__label__rest"):
            found = make_model(f"fasttext:{file}:{spec}").score(page)
            label = spec.removeprefix("__label__")
            assert found == pytest.approx(probability(label, text), abs=1e-4)
    assert make_model(f"fasttext:{file}:odd").score(page_of("", "", "bad bad bad")) < 1e-4
    assert make_model(f"language:de:fasttext:{file}:hq").score(PAGES[1]) == 0


def test_a_fasttext_model_that_is_cut_short_anywhere_is_refused(tmp_path):
    """fastText itself would not end, or end the process."""
    whole, cut = tmp_path / "whole.bin", tmp_path / "cut.bin"
    write_model(whole)
    content = whole.read_bytes()
    for n in range(len(content)):
        cut.write_bytes(content[:n])
        with pytest.raises(ConfigError, match=r"is not a fastText model that tells labels .*\.$"):
            make_model(f"fasttext:{cut}:hq")
    cut.write_bytes(content + b"\0")
    with pytest.raises(ConfigError, match="longer than it says"):
        make_model(f"fasttext:{cut}:hq")


@pytest.mark.parametrize(
    ("at", "change"),
    [
        *((at, change) for at in (8, 40, 64, 68, 72) for change in (-1, 1, 1_000)),  # sizes
        (28, 1),  # n-grams of words, and no buckets
        (32, 2),  # a loss that there is not
        (48, -1),  # subwords, and no buckets
    ],
)
def test_a_fasttext_model_whose_numbers_disagree_is_refused(tmp_path, at, change):
    """fastText itself trusts them: the process died of these."""
    file = tmp_path / "model.bin"
    write_model(file)
    content = bytearray(file.read_bytes())
    number = int.from_bytes(content[at : at + 4], "little", signed=True)
    content[at : at + 4] = (number + change).to_bytes(4, "little", signed=True)
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="is not a fastText model that tells labels"):
        make_model(f"fasttext:{file}:hq")


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("fasttext:model.bin", ["fasttext:FILE:LABEL", "hq, rest, odd"]),
        ("fasttext:model.bin:best", ["model.bin:best", "hq, rest, odd"]),
        ("fasttext:none.bin:hq", ["none.bin", "cannot be read"]),
        ("fasttext:vectors.bin:hq", ["vectors.bin", "not supervised"]),
        ("fasttext:model.txt:hq", ["model.txt", "of another format"]),
        ("language:", ["say what to look for"]),
        ("language:deutsch", ["'deutsch'", "unknown"]),
        ("language:de, :words:x", ["''", "unknown"]),
        ("language:de:chess", ["'chess'", "import path"]),
    ],
)
def test_bad_input_gets_one_sentence(spec, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.bin")
    write_model(tmp_path / "vectors.bin", kind=2)
    (tmp_path / "model.txt").write_text("__label__hq good\n" * 20)
    with pytest.raises(ConfigError) as caught:
        make_model(spec)
    assert all(name in str(caught.value) for name in names), caught.value
    assert str(caught.value).endswith(".")


def test_models_whose_package_is_missing_are_refused(tmp_path, monkeypatch):
    write_model(tmp_path / "model.bin")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    for spec, extra in (
        ("language:de", "texts"),
        ("value_models.French", "texts"),
        (f"fasttext:{tmp_path}/model.bin:hq", "fasttext"),
    ):
        with pytest.raises(ConfigError, match=rf"pip install 'crawlprio\[{extra}\]'"):
            make_model(spec)


def test_a_resume_takes_only_models_from_a_store_that_run_no_code():
    plain = ("words:a", "query:a b", "language:de", "language:de,en:words:a", "language:de:query:a")
    others = (
        *("language:de:my.Model", "query:@x", "language:de:query:@x", "fasttext:m.bin:hq", "a.B"),
    )
    assert [spec for spec in (*plain, *others) if is_plain("CRAWLPRIO_VALUE", spec)] == list(plain)
