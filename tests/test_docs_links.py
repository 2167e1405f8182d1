"""Links within README and docs lead to files, and to headings, that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for folder in (".", "benchmarks", "docs", "experiments")
    for page in (ROOT / folder).glob("**/*.md" if folder == "docs" else "*.md")
    if page.parent.name != "_build"
)

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")


@cache
def text_of(page):
    """Return a page without its code blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


@cache
def anchors(page):
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    found = []
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text_of(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def broken(page):
    """Return the links of a page within the repository that lead nowhere."""
    lost = []
    for link in _LINK.findall(re.sub(r"`[^`\n]*`", "", text_of(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    return lost


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert broken(page) == []


def test_a_link_to_a_missing_file_or_heading_is_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# Some *thing*, here\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#some-thing-here) [b](other.md#twice-1) [c](other.md#nowhere) [d](none.md)\n"
        "[e](#own)\n\n```\n[f](none.md)\n```\n\n# Own\n[g](https://example.org/none.md)\n"
    )
    assert broken(page) == ["other.md#nowhere", "none.md"]


def test_the_site_has_every_page_of_the_docs():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    listed = set(re.findall(r"^([\w/-]+)$", index, re.MULTILINE))
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix(""))
        for page in (ROOT / "docs").rglob("*.md")
        if page.parent.name not in ("reproduction", "_build")
    }
    assert pages - listed == {"index"}


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 110
