"""What pages are worth by their text: value models, orderings by value, kept texts, novelty."""

from crawlprio.settings_table.setting_types import AnyValue, Bool, Choice, Section, Setting

ORDER = Section(
    "Order",
    Setting(
        "CRAWLPRIO_VALUE",
        AnyValue(
            "words:TERMS, query:WORDS, classifier:FILE.json, fasttext:FILE:LABEL, "
            "language:CODES or an import path",
            none="no model",
        ),
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
