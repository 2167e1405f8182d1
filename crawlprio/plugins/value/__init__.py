"""What pages are worth by their text: value models, orderings by value, kept texts, novelty."""

import re
from dataclasses import dataclass

from crawlprio.settings_table.setting_types import AnyValue, Bool, Choice, Section, Setting


@dataclass(frozen=True)
class ModelName(AnyValue):
    """A value model, which is checked when it is made."""

    bounds: str = (
        "words:TERMS, query:WORDS, classifier:FILE.json, fasttext:FILE:LABEL, "
        "language:CODES or an import path"
    )

    def portable(self, value: str) -> tuple[str, str] | None:
        if re.fullmatch(r"(language:[^:@]*:)*((words|query):[^@]*|language:[^:@]*)", value):
            return value, ""
        found = re.fullmatch(r"((?:language:[^:]*:)*)(?:classifier:)?([^:]+\.json)", value)
        return (f"{found[1]}classifier:", found[2]) if found else None


ORDER = Section(
    "Order",
    Setting(
        "CRAWLPRIO_VALUE",
        ModelName(none="no model"),
        None,
        "The value model that says what each page is worth ([value](value.md)).",
        needs=(("language:", "py3langid", "texts"), ("fasttext:", "fasttext", "fasttext")),
        option="--value MODEL",
        summary="what pages are worth: words:TERMS, query:WORDS, classifier:FILE.json, "
        "fasttext:FILE:LABEL, language:CODES[:MODEL] or an import path",
    ),
    Setting(
        "CRAWLPRIO_NOVELTY",
        Choice(words=("exact", "near"), none="putting off no repeats"),
        None,
        "Put off pages that are likely to repeat others: those with the same text (exact), or "
        "with almost the same (near, which needs the extra novelty) ([novelty](novelty.md)).",
        needs=(("near", "rensa", "novelty"),),
        option="--novelty exact|near",
    ),
)

OUTPUT = Section(
    "Output",
    Setting(
        "CRAWLPRIO_KEEP_TEXT",
        Bool(),
        False,
        "Keep the text of each page in the crawl store, with the visit of its page, its "
        "language and the licence that it names (the extra `texts`); `crawlprio texts export` "
        "writes them as Parquet or JSON lines ([texts](texts.md)).",
        needs=(("", "py3langid", "texts"),),
        option="--keep-text",
    ),
)
