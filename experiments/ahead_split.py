"""Which webs, starts and attacks an ordering is tuned on, and which judge it, once.

Written down before any ordering was run on what is set aside. The mailing lists, forum, wiki and
magazine among `JUDGE` that `benchmarks/archive_list.py` holds out have judged twice before, earlier
orderings of this project; the others are new. A web counts once, whatever its number of starts.
"""

from __future__ import annotations

TUNE = (
    *("uci-ics", "hollins", "cnr-2000"),
    *("boost", "django", "erlang", "gnome", "gtk", "linux", "manuals", "postgresql", "racket"),
    *("sqlite", "twisted-lists", "opensim-list", "opendcl-forum", "timecrest-forum", "wikinotes"),
    *("akban-wiki", "openehr", "berkeley-guide", "web-standards", "rosindex", "mozilla-reps"),
    *("linuxcn", "sports-of-boston"),
)
"""Webs of `benchmarks/webs.py` and `archives.py`, and the three recorded ones."""

TUNE_HOSTS = {"hosts-1": 1}
"""Generated webs along the hosts of the .uk web of 1996, with the seed of each."""

JUDGE = {
    "openocd-list": "BackupTheBerlios/openocd-development-maillist, all of it",
    "mozilla-archive": "mozilla-it/old-website-archive.mozilla.org, from index.html",
    "art-institute": (
        "art-institute-of-chicago/static-archive, each folder a site, from the index.html of each"
    ),
    "aside-java": "groovy-doc tomcat10-docs libreoffice-dev-doc",
    "aside-tools": (
        "nginx-doc kicad-doc-en fricas-doc antlr4-doc asymptote-doc pike8.0-doc guile-3.0-doc "
        "swig4.0-doc puppetdb-doc python-xarray-doc python-mpmath-doc ntpsec-doc "
        "docbook-xsl-doc-html tcl8.6-doc lua5.2-doc bash-doc"
    ),
    "imagej-lists": "archives.py",
    "openenergy-forum": "archives.py",
    "asm-forum": "archives.py",
    "luciddb-wiki": "archives.py",
    "your-sinclair": "archives.py",
}
"""Repositories or Debian packages of the webs that judge."""

JUDGE_HOSTS = {"hosts-77": 77, "hosts-78": 78}

TUNE_STARTS, JUDGE_STARTS = 1, 2024
"""Seeds of the single pages drawn: three of each web, besides its home pages."""

TUNE_ATTACKS = ("farm", "boosters", "grid", "cliques", "filters", "months")
JUDGE_ATTACKS = ("rings", "wheels", "doorways", "domains", "calendar", "mirrors", "expired", "farm")
"""Kinds of added pages. Rings, wheels and doorways are not in `tests/kit/attacks.py`: a ring links
each page to the next ten; a wheel is a hub and 30 pages that link to each other's neighbours and
back; a doorway is one of many small sites of three pages that all link to one front page."""

ATTACK_SHARES = (0.1, 0.3)
"""Added pages as a share of all, and, for comment spam, pages of the web that link to them."""
