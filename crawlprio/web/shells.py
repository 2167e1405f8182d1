"""Which pages look as if a script makes what they show, or changes it by the part after `#`."""

from __future__ import annotations

import re

MANY_LINKS = 20
"""A page with more links than these is not made by script as a whole."""

# Characters of text below which a page may say "Loading", or have an empty root element.
_PLACEHOLDER, _LITTLE, _LOOKED_AT = 40, 200, 100_000
_TOKENS = re.compile(
    r"(?is)(?P<hidden><!--.*?(?:-->|\Z)"
    r"|<(?P<name>script|style|noscript|template|svg|title)\b.*?(?:</(?P=name)\s*>|\Z))"
    r"|(?P<tag><(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+>?)|(?P<text>[^<]++)"
).finditer
# To take linear time on any page, these end a tag at the next "<" and try nothing in two ways.
_LINK = re.compile(r"(?i)<a\s(?:[^<>]*?\s)?href\s*=\s*[\"']?(?!\s*(?:#|javascript|mailto))").findall
_REFRESHES = re.compile(r"(?i)<meta\s[^<>]*?http-equiv\s*=\s*[\"']?refresh").search
_RUNS = re.compile(
    # A script of a type that is not run is data.
    r"(?i)<script\b(?![^<>]*?\stype\s*=\s*[\"']?(?!module|[^\"'\s>]*(?:java|ecma)script)[^\"'\s>])"
).search
_SHOWS = re.compile(
    r"(?i)<(?:input|textarea|select|button|canvas|t[dh])\b(?![^<>]*\b(?:hidden|none)\b)"
).search
_ROOT = re.compile(
    r"(?i)<(?:(?>(?:div|main|section|body)\b[^<>]*?\s(?:id|class)\s*=\s*[\"']?"
    r"(?:app|root|__next|__nuxt|q-app|svelte|main|[\w-]*-(?:app|root))[\"'\s>])[^<]*</"
    r"|([a-z]+-[a-z-]++)(?!\w)[^<>]*?(?:/>|>\s*</\1>))"
).search
_EMPTY = re.compile(r"(?i)<(?!html|head\b)([a-z][\w-]*+)[^<>]*>\s*(?:<img[^<>]*>\s*)?</\1").search
_WAITS = re.compile(r"(?i)>(?![^<]*redirect)[^<]*(?:loading|wait|\.\.\.|…|&hellip;)").search
_LACKS_MENU = re.compile(
    # An element with a menu's name that is empty, or has but a form without links, as DocFX's; or a
    # script with such a name: navtreedata.js, sidebar-items.js, rustdoc's src-files.js, TypeDoc's.
    rb"<(?>(?:(?:div|nav|ul|ol|aside|section) [^<>]*?id=[\"']?(?!search)|[a-z]+-)[\w-]{0,40}?"
    rb"(?:[Nn]av|[Mm]enu|[Ss]ide-?[Bb]ar|sidetoc)"
    rb"(?:[\w-]{0,40}?(?:bar|box|tree|items|contents?|container))?(?![\w-]))[^<>]*>"
    rb"(?:\s|<!--[^<>]*-->|<(\w++)[^<>]*>\s*(?:Loading[.\s]*)?</\1>"
    rb"|<form\b(?:[^<]++|<(?!/?form\b|a\s))*+</form>)*+</"
    rb"|<script [^<>]*?(?:src=[^<>]{0,200}?(?:(?:nav|menu|sidebar)[\w-]{0,40}?(?:data|items)"
    rb"|(?:src|source)-files)[\w.-]{0,40}js|id=.?tsd-nav-script)"
).search
_TEMPLATES = re.compile(
    r"(?is)<script\s[^>]*?type\s*=\s*[\"']?text/(?:x-handlebars(?:-template)?|x-template|template"
    r"|html|ng-template)[\"'\s>][^<]*(.*?)</script"
).findall
_HASH_ROUTES = re.compile(
    rb"(?i)<a\s(?:[^<>]*?\s)?href\s*=\s*[\"']?([^\"'#>\s]*#!?/[^\"'>\s]*)"
).findall


def has_script(body: bytes) -> bool:
    """Return whether a page has a script, of whatever kind. Cost: 1 µs for 20 kB."""
    return b"<script" in body or b"<SCRIPT" in body


def hash_routes(body: bytes) -> set[str]:
    """Return the links of a page to `#/...` and `#!/...`, as scripts show other pages by them."""
    found = _HASH_ROUTES(body) if b"#/" in body or b"#!/" in body else ()
    return {route.decode("utf-8", "replace") for route in found}


def looks_made_by_script(body: bytes) -> bool:
    """Return whether a page has a script that runs, and leaves its content or its menu to it.

    Content: two links or fewer, no control or table, and an empty element but no text, or one piece
    of text like "Loading", of under 40 characters; or an empty root element, as frameworks fill it,
    and under 200 characters; or more text in templates than twice what it shows; but not a page
    that leads elsewhere by `meta http-equiv=refresh`. Menu: an element that is empty or holds only
    a form, or a script, is named as one. Cost: 2 to 4 µs for each kB, 100 µs more if links are few.
    """
    if not has_script(body):
        return False
    lacks_menu = _LACKS_MENU(body, 0, _LOOKED_AT) is not None
    has_templates = b"text/x-" in body or b"text/template" in body or b"text/ng-" in body
    if not (lacks_menu or has_templates) and body.count(b"<a ", 0, _LOOKED_AT) > MANY_LINKS:
        return False
    html = body.decode("utf-8", "replace")
    runs = _RUNS(html) is not None
    if lacks_menu or not runs:
        return runs
    end = html.rfind("</script") + 8
    held = sum(map(len, _TEMPLATES(html, 0, end))) if has_templates else 0
    shown, n_text, n_pieces = _shown(html, max(_LITTLE, held // 2))
    says_little = n_text < _PLACEHOLDER and n_pieces <= 1 and not _SHOWS(shown)
    if says_little and len(_LINK(shown)) <= 2 and (_WAITS if n_text else _EMPTY)(shown):
        return _REFRESHES(shown) is None
    is_root = n_text < _LITTLE and _ROOT(shown) is not None
    return is_root or held > 2 * n_text + _LITTLE


def _shown(html: str, enough: int) -> tuple[str, int, int]:
    """Return a page without what it does not show, up to `enough` characters of text.

    Also how many characters those are, and in how many pieces with a letter.
    """
    parts, n_text, n_pieces = [], 0, 0
    for token in _TOKENS(html):
        if token["text"] is not None:
            text = " ".join(token["text"].split())
            n_text += len(text)
            n_pieces += any(map(str.isalnum, text)) and not text.endswith(("...", "…"))
        if n_text >= enough:
            break
        parts.append(" " if token["hidden"] else token[0])
    return "".join(parts), n_text, n_pieces
