"""Webs and topics for work on the orderings by value: half to tune on, half set aside.

Written before any crawl of those set aside, which are crawled once, at the end. Topics were chosen
by how many pages have their words; of the last three webs set aside, by their subject alone. A
topic is the terms of `words:TERMS`; `LONG` is a quality instead, min(characters of text / 5000, 1),
whose hot queue gets `HOT`. The webs are built as `benchmarks/value_webs.py` builds them, of at most
10,000 pages each: Debian packages, `benchmarks/archive_list.py`, and a recorded crawl (`uci`).
"""

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
