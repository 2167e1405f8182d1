"""The docs site, as `make docs` builds it with Sphinx."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from crawlprio import __version__

DOCS = Path(__file__).parent

project = "crawlprio"
version = release = __version__
extensions = ["myst_nb"]
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # the pages of docs/reproduction start at the second level
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
highlight_language = "text"  # blocks without a language are commands, or what they print
nb_execution_mode = "off"  # a test runs the notebook; the page shows what it showed
html_theme = "furo"
html_title = "crawlprio"
html_show_sourcelink = html_show_copyright = False

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(?:#[^)]*)?\)")


def setup(app: Any) -> None:
    app.connect("source-read", _unlink_what_is_outside)


def _unlink_what_is_outside(app: Any, docname: str, source: list[str]) -> None:
    """Replace links to files of the repository that are not part of the site by their names."""
    folder = (DOCS / docname).parent

    def shown(link: re.Match[str]) -> str:
        return link[0] if (folder / link[2]).resolve().is_relative_to(DOCS) else link[1]

    source[0] = _LINK.sub(shown, source[0])
