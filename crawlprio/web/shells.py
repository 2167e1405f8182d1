"""Which pages look as if a script makes what they show, or changes it by the part after `#`."""

from __future__ import annotations

import re

_PLACEHOLDER, _LITTLE = 40, 500
"""Characters of text below which a page may say "Loading", or have an empty root element."""

MANY_LINKS = 20
"""A page with more links than these is not made by script as a whole."""

_LOOKED_AT = 100_000
_TOKENS = re.compile(
    r"(?P<hidden><!--.*?(?:-->|\Z)"
    r"|<(?P<name>script|style|noscript|template|svg|head)\b.*?(?:</(?P=name)\s*>|\Z))"
    r"|(?P<tag><[^>]*+>?)|(?P<text>[^<]++)",
    re.DOTALL | re.IGNORECASE,
).finditer
_LINK = re.compile(
    r"<a\s(?:[^>]*?\s)?href\s*=\s*[\"']?(?!\s*(?:#|javascript:|mailto:))", re.IGNORECASE
).findall
_NOSCRIPT = re.compile(r"<noscript\b.*?</noscript\s*>", re.DOTALL | re.IGNORECASE).sub
_REFRESHES = re.compile(r"<meta\s[^>]*http-equiv\s*=\s*[\"']?refresh", re.IGNORECASE).search
_RUNS = re.compile(
    # A script of a type that is not run is data.
    r"<script\b(?![^>]*\stype\s*=\s*[\"']?(?!module|[^\"'\s>]*(?:java|ecma)script)[^\"'\s>])",
    re.IGNORECASE,
).search
_SHOWS = re.compile(r"<(?:input|textarea|select|button|canvas|t[dh])\b", re.IGNORECASE).search
_ROOT = re.compile(
    r"<(div|main|section|body)\b[^>]*\sid\s*=\s*[\"']?"
    r"(?:app|root|__next|__nuxt|q-app|svelte|main|[\w-]*-(?:app|root))[\"'\s>][^<]*</"
    r"|<([a-z]+-[a-z-]+)\b[^>]*>\s*</\2>",
    re.IGNORECASE,
).search
_HASH_ROUTES = re.compile(
    rb"<a\s(?:[^<>]*?\s)?href\s*=\s*[\"']?([^\"'#>\s]*#!?/[^\"'>\s]*)", re.IGNORECASE
).findall
_TEMPLATES = re.compile(
    r"<script\s[^>]*?type\s*=\s*[\"']?text/(?:x-handlebars(?:-template)?|x-template|template|html"
    r"|ng-template)[\"'\s>][^<]*(.*?)</script",
    re.DOTALL | re.IGNORECASE,
).findall


def has_script(body: bytes) -> bool:
    """Return whether a page has a script, of whatever kind. Cost: 1 µs for 20 kB."""
    return b"<script" in body or b"<SCRIPT" in body


def hash_routes(body: bytes) -> set[str]:
    """Return the links of a page to `#/...` and `#!/...`, as scripts show other pages by them."""
    if b"#/" not in body and b"#!/" not in body:
        return set()
    return {found.decode("utf-8", "replace") for found in _HASH_ROUTES(body)}


def looks_made_by_script(body: bytes) -> bool:
    """Return whether a page has a script and next to nothing else.

    That is two links or fewer, no control or table, and one piece of text at most, as "Loading",
    of under 40 characters; or an empty root element, as frameworks fill it, and under 500
    characters; or more text in templates than twice what it shows. So an example of a script
    library, which says what it shows, does not count, nor does a page that only leads elsewhere, by
    `meta http-equiv=refresh`.

    Cost: 2 µs for each kB, and some 100 µs for a page with few links.
    """
    if not has_script(body):
        return False
    has_templates = b"text/x-" in body or b"text/template" in body or b"text/ng-" in body
    if not has_templates and body.count(b"<a ", 0, _LOOKED_AT) > MANY_LINKS:
        return False
    html = body.decode("utf-8", "replace")
    held = sum(map(len, _TEMPLATES(html))) if has_templates else 0
    shown, n_text, n_pieces = _shown(html, max(_LITTLE, held // 2))
    says_little = n_text < _PLACEHOLDER and n_pieces <= 1 and not _SHOWS(shown)
    if says_little and len(_LINK(shown)) <= 2:
        return _RUNS(html) is not None and _REFRESHES(_NOSCRIPT("", html)) is None
    is_root = n_text < _LITTLE and _ROOT(shown) is not None
    return (is_root or held > 2 * n_text + _LITTLE) and _RUNS(html) is not None


def _shown(html: str, enough: int) -> tuple[str, int, int]:
    """Return a page without what it does not show, up to `enough` characters of text.

    Also how many characters those are, and in how many pieces with a letter.
    """
    parts, n_text, n_pieces = [], 0, 0
    for token in _TOKENS(html):
        if token["text"] is not None:
            text = " ".join(token["text"].split())
            n_text += len(text)
            n_pieces += any(map(str.isalnum, text))
        if n_text >= enough:
            break
        parts.append(" " if token["hidden"] else token[0])
    return "".join(parts), n_text, n_pieces
