"""The seeds of a crawl, and the scope of the links it follows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from crawlprio.errors import ConfigError
from crawlprio.web.addresses import PrivateAddresses
from crawlprio.web.extensions import DYNAMIC, SKIP_EXTENSIONS, extension_of
from crawlprio.web.traps import Traps
from crawlprio.web.urls import MAX_URL_LENGTH, host_of, normalise_url

if TYPE_CHECKING:
    from tldextract import TLDExtract

FOLLOW = ("domain", "site", "web")
"""Values of `follow`."""

_CGI_BIN = "/cgi-bin/"
_MAX_HOSTS_CACHED = 100_000


class Scope:
    """Decides which links a crawl follows: by host, expression, file type and depth.

    Parameters
    ----------
    seeds
        URLs at which the crawl starts.
    follow
        `"site"` (the default): pages on the hosts of the seeds, with or without a leading `www.`.
        `"domain"`: pages of the registered domains of the seeds, by the public suffix list bundled
        with tldextract, including private suffixes (`github.io`); if the list does not have the
        top-level domain, the last two labels; an IP address is its own domain. `"web"`: all pages.
    allow, deny
        Regular expressions: a URL is followed only if it matches `allow` anywhere and does not
        match `deny`. Empty or None: no condition.
    hosts
        If given, only pages on these hosts are followed, under any `follow`.
    heuristics
        Whether to skip endlessly generated pages by the rules below; default True.
    skip_cgi_bin
        Skip URLs with `/cgi-bin/` (Cho, Garcia-Molina & Page, Efficient crawling through URL
        ordering, WWW7, 1998, section 4); default True.
    max_static_depth, max_dynamic_depth
        Maximum depth, in links from a seed, of static and dynamic pages; default 15 and 5
        (Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005, section 3). A URL
        is dynamic if it has a question mark or an extension in `DYNAMIC`; that list is ours, since
        the paper does not print one. None: no limit.
    traps
        Limits on the form of URLs; default `Traps()`.
    skip_extensions
        Extensions, without dot and in lower case, of files that are not followed, regardless of
        `heuristics`; default `SKIP_EXTENSIONS`.
    private
        Decides which private hosts may be followed; None (the default): all.

    Raises
    ------
    ConfigError
        If `follow`, a regular expression or a seed is invalid.

    Notes
    -----
    The seeds themselves are fetched regardless of the scope.
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
        """Add the site or domain of another seed to the scope; return whether it is new.

        Raises
        ------
        ConfigError
            If `url` is not an absolute http(s) URL.
        """
        home = self._home(host_of(_check_seed(url, "seeds: ")))
        if home in self._homes:
            return False
        self._homes.add(home)
        self._judged.clear()
        return True

    def allows(self, url: str, depth: int) -> bool:
        """Return whether a page is followed; `refuses` gives the reason if not."""
        return not self.refuses(url, depth)

    def refuses(self, url: str, depth: int) -> str:
        """Return the reason why a page is not followed, or an empty string; see `refuse_all`."""
        return self.refuse_all((url,), depth)[0]

    def refuse_all(self, urls: Sequence[str], depth: int) -> list[str]:
        """Return for each page the reason why it is not followed, or an empty string if it is.

        The reasons are `out-of-scope` (host, `allow` or `deny`), `private-address`, `extension`,
        `too-deep`, `cgi-bin`, and those of `Traps.refuses`.

        Parameters
        ----------
        urls
            Normalised URLs of the pages.
        depth
            Number of links from a seed to these pages: 1 for the links of a seed.

        Notes
        -----
        Cost: 0.3 to 1 µs per page, plus 2.5 µs once per host under `follow="domain"`.
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
        if self._allow is not None and self._allow.search(url) is None:
            return "out-of-scope"
        if self._deny is not None and self._deny.search(url) is not None:
            return "out-of-scope"
        return self._traps.refuses(url)

    def _judge(self, site: str) -> str:
        """Return why pages of a host (with port) are not followed, or an empty string; cache it."""
        host = host_of(f"//{site}")
        refusal = ""
        is_given = self._hosts is None or host in self._hosts
        if not is_given or not (self.follow == "web" or self._home(host) in self._homes):
            refusal = "out-of-scope"
        if self._private is not None and not self._private.allows_host(host):
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

    A file is in UTF-8 with one URL per line; empty lines and lines that begin with `#` are ignored.
    Write a comma inside a URL of a comma-separated list as `%2C`.

    Returns
    -------
    list of str
        Distinct normalised URLs, in the order given.

    Raises
    ------
    ConfigError
        If a URL is not an absolute http(s) URL, a file cannot be read, or there is no seed.
    """
    parts = spec if isinstance(spec, list) else spec.strip().split(",")
    if isinstance(spec, str) and parts[0].startswith("@"):
        return _read_seed_file(Path(spec.strip()[1:]))
    seeds = [_check_seed(part, "seeds: ") for part in parts if part.strip()]
    if not seeds:
        raise ConfigError("seeds is empty; give URL[,URL...] or @FILE.")
    return list(dict.fromkeys(seeds))


def _read_seed_file(path: Path) -> list[str]:
    """Return the seeds in a file."""
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


def _check_seed(url: str, where: str) -> str:
    """Return a seed in normal form; raise ConfigError if it is invalid."""
    url = url.strip()
    normal = normalise_url(url)
    if normal is not None:
        return normal
    if len(url) > MAX_URL_LENGTH:
        raise ConfigError(
            f"{where}{url[:40]!r}... has {len(url)} characters; at most {MAX_URL_LENGTH} are "
            "allowed."
        )
    scheme, colon, _ = url.partition("://")
    if not colon and normalise_url(f"https://{url}") is not None:
        raise ConfigError(f"{where}{url!r} has no scheme; write 'https://{url}' or 'http://{url}'.")
    if colon and scheme.lower() not in ("http", "https"):
        raise ConfigError(f"{where}{url!r} is not http or https; only those are crawled.")
    raise ConfigError(f"{where}{url!r} is not a URL; write it as 'https://example.org/'.")


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


@cache
def _suffixes() -> TLDExtract:
    """Return the public suffix list bundled with tldextract; never fetches or caches one."""
    from tldextract import TLDExtract

    return TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
