"""Webs and topics for work on the orderings by value: some to tune on, others set aside twice.

Those set aside were written down before any crawl of them, and crawled once, at the end. Topics of
`TUNING` and `SET_ASIDE` were chosen by how many pages have their words; of the last three webs of
`SET_ASIDE`, by their subject alone. Once judged, `SET_ASIDE` served for tuning too, and `JUDGES`,
whose topics the rule of `topics_of` draws, judged what came of it. Then `JUDGES` served for tuning,
and `LATER_JUDGES`, whose topics the same rule draws, judge; for weights fitted in batches,
`BATCH_JUDGES` do. A topic is the terms of
`words:TERMS`; `LONG` is a quality instead, min(characters of text / 5000, 1), whose hot queue gets
`HOT`. The webs are built as `benchmarks/value_webs.py` builds them, of at most 10,000 pages each:
Debian packages, `benchmarks/archive_list.py`, and a recorded crawl (`uci`).
"""

import re
from collections.abc import Callable, Sequence
from hashlib import sha256

LONG = "LONG"
HOT = {LONG: "introduction, guide, about"}

TUNING = {
    "postgresql-doc": (
        *("vacuum, autovacuum, dead tuples", "full text search, tsvector", "trigger", LONG),
    ),
    "openenergy-forum": ("heat pump", "raspberry pi", "mqtt"),
    "uci": ("cryptography, encryption", "seminar", "database, query"),
    "ucf-news": ("football", "nanotechnology, optics"),
    "opensim-list": ("physics", "database, mysql"),
    "phila-gov": ("permit, license", "tax"),
}
"""A manual, a forum, a university, a newspaper, a mailing list and a city."""

SET_ASIDE = {
    "erlang-doc": ("unicode", "timeout", "protocol", LONG),
    "asm-forum": ("opengl", "driver, kernel", "fpu, floating point"),
    "berkeley-guide": ("linguistics", "ancient, classical", "computational"),
    "web-standards": ("accessibility, accessible", "education"),
    "fetchmail-list": ("gmail", "spam", "certificate"),
    "openehr": ("archetype, archetypes", "snomed", LONG),
    "luciddb-wiki": ("jdbc", "index, indexes"),
}
"""A manual, a forum, a university, a campaign, a mailing list, an organisation and a wiki."""

JUDGES = {
    "groonga-doc": (LONG,),
    "cppreference-doc-en-html": (LONG,),
    "opendcl-forum": (),
    "timecrest-forum": (),
    "socketcan-list": (),
    "akban-wiki": (),
    "judge-mozilla-it": (LONG,),
    "your-sinclair": (),
}
"""Two manuals, two forums, a mailing list, a wiki, an organisation and a magazine, with what is
judged beside their topics. No value was computed on them before."""

LATER_JUDGES = {
    "linux-doc-6.1": (LONG,),
    "lilypond-doc-html": (),
    "racket-doc": (),
    "mapnik-list": (),
    "uvc-list": (),
    "imagej-lists": (),
    "tekken-forum": (),
    "unreal-wiki": (LONG,),
    "wikinotes": (),
    "sports-of-boston": (),
    "rosindex": (LONG,),
    "mozilla-reps": (),
}
"""Three manuals, three mailing lists, a forum, two wikis, a newspaper, a catalogue of software, and
people and their events, with what is judged beside their topics. No value was computed on them
before, and nothing that was tuned for `value` has seen them."""

BATCH_JUDGES: dict[str, tuple[str, ...]] = {
    "openocd-list": (),
    "socionics-wiki": (),
    "drupal-cz": (),
    "linuxcn": (),
}
"""A mailing list, a wiki, an organisation and a newspaper that judge weights fitted in batches."""

BANDS = ((0.003, 0.01), (0.01, 0.04), (0.04, 0.15))
"""Mean values of the topics that are drawn for each web of the three groups of judges."""


def topics_of(titles: Sequence[str], mean_value: Callable[[str], float]) -> list[str]:
    """Return a word for each of `BANDS`, if the web has one: that with the smallest SHA-256.

    Candidates are the words of five letters or more, a to z, in the titles of three pages or more.
    """
    n_titles: dict[str, int] = {}
    for title in titles:
        for word in set(re.findall(r"\b[a-z]{5,}\b", title.casefold())):
            n_titles[word] = n_titles.get(word, 0) + 1
    words = sorted(word for word, n in n_titles.items() if n >= 3)
    found = dict.fromkeys(BANDS, "")
    for word in sorted(words, key=lambda word: sha256(word.encode()).digest()):
        if all(found.values()):
            break
        mean = mean_value(word)
        for band in BANDS:
            if not found[band] and band[0] <= mean < band[1]:
                found[band] = word
    return [word for word in found.values() if word]
