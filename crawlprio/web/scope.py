"""The seeds of a crawl, the scope of the links it follows, and the URLs it never follows.

Each URL is judged by itself, without regard to the pages that a crawl has seen.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import inf
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from crawlprio.errors import ConfigError
from crawlprio.web.addresses import PrivateAddresses
from crawlprio.web.urls import MAX_URL_LENGTH, host_of, normalise_url

if TYPE_CHECKING:
    from tldextract import TLDExtract

_SKIPPED = """
    7z apk bin bz2 cab deb dmg exe gz img iso jar lz lzma msi rar rpm tar tgz xz zip zst
    avif bmp cdr dxf eot eps gif heic ico jp2 jpeg jpg otf pbm pgm png pnm ppm psd svg tif tiff ttf
    webp woff woff2 xbm xpm
    3gp aac aif aiff asf avi flac flv m4a m4v mid midi mkv mov mp2 mp3 mp4 mpeg mpg oga ogg ogv
    opus swf wav webm wma wmv
    djvu doc docm docx dvi epub mobi odp ods odt pdf pps ppsx ppt pptm pptx ps rtf xls xlsb xlsm
    xlsx npy npz parquet pickle pkl pyc sqlite wasm
"""
SKIP_EXTENSIONS = tuple(sorted(_SKIPPED.split()))
"""Extensions, without dot and in lower case, of archives, programs, media, documents and binary
data: files that are of no use to a crawl for links. Text files (`.txt`, `.js`, `.py`, `.json`) are
not included, nor are extensions that are just as often a word or part of a name (`.au`, `.ai`,
`.war`): such a page may be anything, so its content type decides."""

_MADE_ON_DEMAND = """
    asp aspx cfm cfml cgi do fcgi jhtml jsp jspx mvc nsf php php3 php4 php5 php7 phtml pl
"""
DYNAMIC = frozenset(_MADE_ON_DEMAND.split())
"""Extensions of dynamic pages; a URL with a question mark is dynamic too."""


def extension_of(name: str) -> str:
    """Return the extension of the last segment of a path in lower case, or an empty string.

    The title of a wiki page in a namespace, such as `File:Sunset.jpg`, is recognised by its colon
    and has no extension.
    """
    name = name.partition(";")[0]
    if "." not in name or ":" in name or "%3a" in name.lower():
        return ""
    return name.rpartition(".")[2].lower()


# Not after dots: without the session id, they would be a "." or ".." segment.
_PATH_SESSION = re.compile(
    r"(?<!/\.)(?<!\.\.)(?<!%2e);jsessionid=[^/?;]*|/\([A-Z]\([a-z0-9]{24}\)\)(?=/)", re.IGNORECASE
)
_QUERY_NOISE = re.compile(
    r"(?<=[?&;])(?:(?:aspsessionid[a-z]*|cfid|cftoken|jsessionid|oscsid|phpsessid|zenid"
    r"|utm_[a-z_]+|fbclid|gclid|msclkid)=[^&;]*"
    r"|(?:sess|session|session_?id|sid)=[0-9a-z]{20,}|(?<=[?])c=[nmsd][&;]o=[ad]$)(?:[&;]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Traps:
    """Limits that URLs of real pages rarely exceed and URLs of traps soon do; None disables one.

    They bound how often a segment occurs in a path, the empty one included (paths that grow through
    a relative link from a page to itself repeat theirs endlessly), the segments of a path, and the
    parameters of a query. Each is a heuristic. In a crawl of a university, the defaults refuse none
    of the 53,731 known URLs, the longest of which has 13 segments, and one of the 85,738 distinct
    links; 24 of these have more than 8 parameters.
    """

    max_repeats: int | None = 3
    max_segments: int | None = 20
    max_parameters: int | None = 16

    @cached_property
    def n_free_segments(self) -> float:
        """Number of segments up to which a path without a query is never refused."""
        return min(inf if most is None else most for most in (self.max_repeats, self.max_segments))

    def refuses(self, url: str) -> str:
        """Return why a URL looks like a trap, or an empty string.

        The reasons are `repeated-segments`, `long-path` and `parameters`. Cost: 0.4 µs.
        """
        path, query = url, ""
        if "?" in url:
            path, _, query = url.partition("?")
        n_segments = path.count("/") - 2
        if self.max_segments is not None and n_segments > self.max_segments:
            return "long-path"
        if self.max_repeats is not None and n_segments > self.max_repeats:
            # The first three pieces are the scheme, an empty string and the host.
            pieces = path.split("/")
            if (
                len(pieces) - len(set(pieces)) >= self.max_repeats
                and max(Counter(pieces[3:]).values()) > self.max_repeats
            ):
                return "repeated-segments"
        if query and self.max_parameters is not None:
            n_parameters = query.count("&") + query.count(";") + 1
            if n_parameters > self.max_parameters:
                return "parameters"
        return ""


def without_noise(url: str) -> str:
    """Return a URL without what well-known software adds and no page depends on.

    In the path these are the session ids `;jsessionid=` and ASP.NET's `/(S(...))/`. In the query
    they are the parameters CFID, CFTOKEN, JSESSIONID, PHPSESSID, ASPSESSIONID..., osCsid and zenid
    with any value, and sid, sess, session, sessionid and session_id with a value of 20 or more
    letters and digits; marks of campaigns (utm_..., fbclid, gclid, msclkid); and the sort orders of
    a directory listing of Apache (`?C=M;O=A`). Cost: 0.1 µs without parameters, 0.3 µs with them,
    and 1.5 µs if one may be noise.
    """
    if ";" in url or "(" in url:
        # The host may match as well, and the query has its own rules.
        begins = url.find("/", len("https://"))
        path, mark, query = url[begins:].partition("?")
        url = f"{url[:begins]}{_PATH_SESSION.sub('', path)}{mark}{query}"
    if "?" not in url:
        return url
    begins = url.index("?")
    query = url[begins:]
    lower = query.lower()
    # Substrings of all these names; the expression below takes 1 µs even without a match.
    may_match = "sess" in lower or "sid" in lower or "zenid" in lower or "cf" in lower
    may_match = may_match or "utm_" in lower or "clid" in lower or "clkid" in lower
    may_match = may_match or lower.startswith("?c=")
    if not may_match and query.isascii():
        return url
    stripped = _QUERY_NOISE.sub("", query)
    return url if stripped == query else url[:begins] + stripped.rstrip("?&;")


FOLLOW = ("domain", "site", "web")
"""Values of `follow`."""

_CGI_BIN = "/cgi-bin/"
_MAX_HOSTS_CACHED = 100_000

MATCH_SECONDS = 1.0
"""Processor time that `allow` or `deny` may take for one URL."""

_HAS_TIMER = hasattr(signal, "setitimer")


class Scope:
    """Decides which links a crawl follows: by host, expression, file type and depth.

    `follow` is `"site"` (the default): the hosts of the seeds, with or without a leading `www.`;
    `"domain"`: the registered domains of the seeds, by the public suffix list bundled with
    tldextract, including private suffixes (`github.io`), or the last two labels under a top-level
    domain that the list lacks, where an IP address is its own domain; or `"web"`: all pages. With
    `hosts`, only pages on these are followed in any case. A URL is followed only if it matches the
    regular expression `allow` anywhere, and does not match `deny`. Files with an extension of
    `skip_extensions` (lower case, without dot) are never followed, nor are hosts that `private`
    refuses. The seeds themselves are fetched regardless of the scope.

    `heuristics` turns on the rest: `skip_cgi_bin` skips URLs with `/cgi-bin/` (Cho, Garcia-Molina &
    Page, Efficient crawling through URL ordering, WWW7, 1998, section 5.1); `traps` limits the form
    of URLs; and the depth, in links from a seed, is at most 15 for static and 5 for dynamic pages
    (Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005, section 5.1; None: no
    limit). A URL is dynamic if it has a question mark or an extension in `DYNAMIC`; that list is
    ours, since the paper does not print one.

    An invalid argument is a ConfigError, and so is, later, an expression that takes more than
    `MATCH_SECONDS` for a URL.
    """

    def __init__(
        self,
        seeds: Iterable[str],
        follow: str = "site",
        allow: str | None = None,
        deny: str | None = None,
        hosts: Iterable[str] | None = None,
        heuristics: bool = True,
        skip_cgi_bin: bool = True,
        max_static_depth: int | None = 15,
        max_dynamic_depth: int | None = 5,
        traps: Traps | None = None,
        skip_extensions: Iterable[str] = SKIP_EXTENSIONS,
        private: PrivateAddresses | None = None,
    ) -> None:
        if follow not in FOLLOW:
            raise ConfigError(f"follow is {follow!r}; known values: {', '.join(FOLLOW)}.")
        self.follow = follow
        self._allow = _expression("allow", allow)
        self._deny = _expression("deny", deny)
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._skips_cgi_bin = heuristics and skip_cgi_bin
        self._max_static = max_static_depth if heuristics else None
        self._max_dynamic = max_dynamic_depth if heuristics else None
        self._traps = (traps or Traps()) if heuristics else Traps(None, None, None)
        self._skipped = frozenset(skip_extensions)
        self._checked_extensions = self._skipped | DYNAMIC
        self._private = private
        self._homes: set[str] = set()
        self._judged: dict[str, str] = {}
        for seed in seeds:
            self.add_seed(seed)

    def add_seed(self, url: str) -> bool:
        """Add the site or domain of another seed to the scope; return whether it is new."""
        home = self._home(host_of(_check_seed(url, "seeds: ")))
        if home in self._homes:
            return False
        self._homes.add(home)
        self._judged.clear()
        return True

    def refuses(self, url: str, depth: int) -> str:
        """Return the reason why a page is not followed, or an empty string; see `refuse_all`."""
        return self.refuse_all((url,), depth)[0]

    def refuse_all(self, urls: Sequence[str], depth: int) -> list[str]:
        """Return for each page the reason why it is not followed, or an empty string if it is.

        The reasons are `out-of-scope` (host, `allow` or `deny`), `private-address`, `extension`,
        `too-deep`, `cgi-bin`, and those of `Traps.refuses`. The URLs are normalised; `depth` is the
        number of links from a seed to these pages. Cost: 0.3 to 1 µs per page, plus 2.5 µs once per
        host under `follow="domain"`.
        """
        judged = self._judged
        is_strict = (
            self._allow is not None
            or self._deny is not None
            or (self._max_static is not None and depth > self._max_static)
        )
        n_few = 2 + self._traps.n_free_segments
        checked_extensions = self._checked_extensions
        joined = "".join(urls)
        has_odd = "?" in joined or ";" in joined or _CGI_BIN in joined
        refusals = []
        for url in urls:
            site = url.split("/", 3)[2]
            refusal = judged.get(site)
            if refusal is None:
                refusal = self._judge(site)
            if not refusal:
                # Most pages have nothing that any rule checks, and pass here.
                if (
                    is_strict
                    or url.rpartition(".")[2].lower() in checked_extensions
                    or (has_odd and ("?" in url or ";" in url or _CGI_BIN in url))
                ):
                    refusal = self._refuses_page(url, depth)
                elif url.count("/") > n_few:
                    refusal = self._traps.refuses(url)
            refusals.append(refusal)
        return refusals

    def refuses_site(self, url: str) -> str:
        """Return why no page on the host of a URL is followed, or an empty string."""
        return self._judge(url.split("/", 3)[2])

    def _refuses_page(self, url: str, depth: int) -> str:
        """Return why a page on an allowed host is not followed, or an empty string."""
        path, question, _ = url.partition("?")
        name = path[path.rindex("/") + 1 :]
        dynamic = bool(question)
        extension = extension_of(name)
        if extension in self._skipped:
            return "extension"
        dynamic = dynamic or extension in DYNAMIC
        deepest = self._max_dynamic if dynamic else self._max_static
        if deepest is not None and depth > deepest:
            return "too-deep"
        if self._skips_cgi_bin and _CGI_BIN in url:
            return "cgi-bin"
        if self._allow is not None and not _matches("allow", self._allow, url):
            return "out-of-scope"
        if self._deny is not None and _matches("deny", self._deny, url):
            return "out-of-scope"
        return self._traps.refuses(url)

    def _judge(self, site: str) -> str:
        """Return why pages of a host (with port) are not followed, or an empty string; cache it."""
        host = host_of(f"//{site}")
        refusal = ""
        is_given = self._hosts is None or host in self._hosts
        if not is_given or not (self.follow == "web" or self._home(host) in self._homes):
            refusal = "out-of-scope"
        elif self._private is not None and not self._private.allows_host(host):
            # Not cached: the resolution of a seed may open its network.
            return "private-address"
        if len(self._judged) >= _MAX_HOSTS_CACHED:
            self._judged.clear()
        self._judged[site] = refusal
        return refusal

    def _home(self, host: str) -> str:
        """Return the site or domain of a host, depending on `follow`."""
        return registered_domain(host) if self.follow == "domain" else host.removeprefix("www.")


def registered_domain(host: str) -> str:
    """Return the registered domain of a host, or the host itself if it is an address.

    Uses the public suffix list bundled with tldextract, including private suffixes. Upper case and
    a dot at the end make no difference. Cost: 2.5 µs.
    """
    host = host.rstrip(".").lower()
    found = _suffixes()(host)
    if found.suffix or found.ipv4 or found.ipv6:
        return found.top_domain_under_public_suffix or host
    return ".".join(host.rsplit(".", 2)[-2:])  # the list's default rule for unlisted suffixes


def read_seeds(spec: str | list[str]) -> list[str]:
    """Return the seeds of a spider argument: `URL[,URL...]`, `@FILE` or a list of URLs.

    They are distinct, normalised, and in the order given. A file is in UTF-8 with one URL per line;
    empty lines and lines that begin with `#` are ignored. Write a comma inside a URL of a
    comma-separated list as `%2C`. Without a seed, or with one that is no absolute http(s) URL, this
    is a ConfigError.
    """
    parts = spec if isinstance(spec, list) else spec.strip().split(",")
    if isinstance(spec, str) and parts[0].startswith("@"):
        return _read_seed_file(Path(spec.strip()[1:]))
    seeds = [_check_seed(part, "seeds: ") for part in parts if part.strip()]
    if not seeds:
        raise ConfigError("seeds is empty; give URL[,URL...] or @FILE.")
    return list(dict.fromkeys(seeds))


def _read_seed_file(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"seeds: {str(path)!r} cannot be read ({reason}).") from None
    seeds = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise ConfigError(f"{path}:{number}: not valid UTF-8; save it as UTF-8.") from None
        if text and not text.startswith("#"):
            seeds.append(_check_seed(text, f"{path}:{number}: "))
    if not seeds:
        raise ConfigError(f"{path}:{len(lines) or 1}: no URL in the file; give one per line.")
    return list(dict.fromkeys(seeds))


_OTHER_SCHEMES = ("mailto:", "javascript:", "data:", "tel:", "about:", "file:")


def _check_seed(url: str, where: str) -> str:
    """Return a seed in normal form; raise ConfigError if it is invalid."""
    url = url.strip()
    normal = normalise_url(url)
    if normal is not None:
        return normal
    scheme, colon, _ = url.lower().partition("://")
    if len(url) > MAX_URL_LENGTH:
        fault = f"{url[:40]!r}... has {len(url)} characters; at most {MAX_URL_LENGTH} are allowed"
    elif scheme not in ("http", "https") if colon else scheme.startswith(_OTHER_SCHEMES):
        fault = f"{url!r} is not http or https; only those are crawled"
    elif not colon and normalise_url(f"https://{url}") is not None:
        fault = f"{url!r} has no scheme; write 'https://{url}' or 'http://{url}'"
    else:
        fault = f"{url!r} is not a URL; write it as 'https://example.org/'"
    raise ConfigError(f"{where}{fault}.")


def _expression(name: str, source: str | None) -> re.Pattern[str] | None:
    """Return a compiled regular expression, or None for no condition."""
    if not source:
        return None
    try:
        return re.compile(source)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise ConfigError(
            f"{name} is {source!r}, which is not a regular expression: {error.msg}{place}."
        ) from None


class _TooSlow(Exception):
    """Raised by the timer that `_matches` sets."""


def _matches(name: str, expression: re.Pattern[str], url: str) -> bool:
    """Return whether an expression matches a URL anywhere, within `MATCH_SECONDS`.

    The expression may come from somebody else's store, and the URL does from the web. The timer
    needs signals, so there is none on Windows, nor beside the main thread.
    """
    if not (_HAS_TIMER and current_thread() is main_thread()):
        return expression.search(url) is not None
    _catch_timer()
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, MATCH_SECONDS)
            return expression.search(url) is not None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    except _TooSlow:
        raise ConfigError(
            f"{name} is {expression.pattern!r}, which takes more than {MATCH_SECONDS:g} s to match "
            f"{url!r}; write it without a repeat inside a repeat."
        ) from None


@cache
def _catch_timer() -> None:
    """End the search that the timer is set for."""

    def stop(number: int, frame: object) -> None:
        raise _TooSlow

    signal.signal(signal.SIGVTALRM, stop)


@cache
def _suffixes() -> TLDExtract:
    """Return the public suffix list bundled with tldextract; never fetches or caches one."""
    from tldextract import TLDExtract

    return TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
