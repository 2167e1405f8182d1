"""Which spellings of a URL mean the same page, and what an `href` means, without crawlprio."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote_to_bytes, urldefrag, urljoin, urlsplit, urlunsplit

from w3lib.url import canonicalize_url, safe_url_string

EXACT = "the same, to the letter"


def join(base: str, href: str, encoding: str) -> str:
    """Return the URL that an `href` means, without its fragment; empty if Python cannot tell."""
    try:
        url = urldefrag(urljoin(base, without_white_space(href)))[0]
        return str(safe_url_string(url, encoding=encoding, path_encoding="utf-8"))
    except ValueError:
        return ""


def without_white_space(href: str) -> str:
    return re.sub(r"[\t\r\n]", "", href.strip("".join(map(chr, range(33)))))


def _part(name: str, change: Callable[[str], str]) -> Callable[[str], str]:
    """A rule that rewrites one part of a URL."""

    def rewrite(url: str) -> str:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(**{name: change(getattr(parts, name))}))

    return rewrite


def _without_dots(path: str) -> str:
    """Return a path without the segments . and .., but with empty segments."""
    kept: list[str] = []
    segments = re.sub(r"%2e", ".", path, flags=re.IGNORECASE).split("/")
    for segment in segments:
        if segment == ".." and len(kept) > 1:
            kept.pop()
        elif segment not in (".", ".."):
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def without_scheme(url: str) -> str:
    """Return the name of a page in a recording: its canonical URL, no scheme or default port."""
    try:
        parts = urlsplit(canonicalize_url(url))
    except ValueError:
        return url
    return re.sub(r":(80|443)$", "", parts.netloc) + urlunsplit(
        parts._replace(scheme="", netloc="")
    )


SAME_PAGE: dict[str, Callable[[str], str]] = {
    "empty path": _part("path", lambda path: path or "/"),
    "upper case in the host": _part("netloc", str.lower),
    "default port": _part("netloc", lambda host: re.sub(r":(80|443)?$", "", host)),
    "user name": _part("netloc", lambda host: host.rpartition("@")[2]),
    "empty query": lambda url: url.removesuffix("?"),
    "dot segments": _part("path", _without_dots),
    "empty path segments, which urljoin drops": _part("path", lambda p: re.sub(r"/+", "/", p)),
    "percent-encoding": lambda url: quote(unquote_to_bytes(url), safe=":/?=&"),
    "canonical form (page known under another spelling)": canonicalize_url,
}
"""Rules that keep the page that a URL means; two URLs are the same page if a rule equates them."""

SAME_HREF: dict[str, Callable[[str], str]] = {
    EXACT: str,
    "backslashes": lambda href: href.replace("\\", "/"),
    "too few or many slashes after the scheme": lambda href: re.sub(
        r"(?i)^(https?:)[/\\]*", r"\1//", href
    ),
}
"""Ways to read an `href`: as written, and as browsers but not Python read it."""


class Spellings:
    """URLs that can be looked up under any spelling that a rule of `SAME_PAGE` explains."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._found: dict[str, dict[str, str]] = {EXACT: {}}
        for url in urls:
            self._found[EXACT][url] = url
            for name, rewritten in _rewritings(url).items():
                self._found.setdefault(name, {}).setdefault(rewritten, url)

    def find(self, url: str) -> tuple[str, str]:
        """Return the URL that `url` means and the rule that shows it, or empty texts."""
        for name, rewritten in {EXACT: url, **_rewritings(url)}.items():
            found = self._found.get(name, {}).get(rewritten)
            if found is not None:
                return found, name
        return "", ""


def _rewritings(url: str) -> dict[str, str]:
    """Return a URL after each rule alone, and after all rules in turn."""
    found, every = {}, url
    for name, rule in SAME_PAGE.items():
        try:
            found[name], every = rule(url), rule(every)
        except ValueError:
            continue
    return {**found, "several spellings at once": every}
