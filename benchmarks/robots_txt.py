"""Puts the cases of `tests/kit/robots_cases.py` to the robots.txt matchers of others, beside ours.

Prints the tables of `robots_txt.md`. Peers that are not installed are left out; to have all:
`pip install robotspy robotexclusionrulesparser gpyrobotstxt fast-robotstxt`, and Debian's wget.
The fetches run Scrapy and wget against a loopback server.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import urllib.robotparser
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from protego import Protego

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "kit")]

from crawls import Answer, Site, page, run_spider  # noqa: E402
from log_judge import RobotsRules  # noqa: E402
from robots_cases import BOT, CASES, Case  # noqa: E402
from scrapy import Spider  # noqa: E402
from test_robots_conformance import ALL, FETCHES  # noqa: E402

from crawlprio.web.robots_txt import decoded  # noqa: E402

Matcher = Callable[[bytes, str], bool]
"""Takes a robots.txt and a path; answers whether `BOT` may fetch it."""


def text_of(body: bytes) -> str:
    return body.decode("utf-8", "ignore")


def by_ours(body: bytes, path: str) -> bool:
    return RobotsRules(decoded(body), BOT).allows(path)


def by_protego(body: bytes, path: str) -> bool:
    return bool(Protego.parse(text_of(body)).can_fetch(f"http://a.test{path}", BOT))


def by_urllib(body: bytes, path: str) -> bool:
    parser = urllib.robotparser.RobotFileParser()
    parser.parse(text_of(body).splitlines())
    return parser.can_fetch(BOT, f"http://a.test{path}")


def matchers() -> Iterable[tuple[str, Matcher]]:
    """Yield ours and the peers that are installed, each with its version."""
    yield "crawlprio", by_ours
    yield f"Protego {version('protego')} (Scrapy {version('scrapy')})", by_protego
    yield f"urllib.robotparser (Python {sys.version.split()[0]})", by_urllib
    with suppress(ImportError):
        from robots import RobotsParser

        yield (
            f"robotspy {version('robotspy')}",
            lambda body, path: RobotsParser.from_string(text_of(body)).can_fetch(BOT, path),
        )
    with suppress(ImportError):
        from robotexclusionrulesparser import RobotExclusionRulesParser

        def by_rerp(body: bytes, path: str) -> bool:
            parser = RobotExclusionRulesParser()
            parser.parse(text_of(body))
            return bool(parser.is_allowed(BOT, f"http://a.test{path}"))

        yield f"robotexclusionrulesparser {version('robotexclusionrulesparser')}", by_rerp
    with suppress(ImportError):
        from gpyrobotstxt.robots_cc import RobotsMatcher as Port

        yield (
            f"gpyrobotstxt {version('gpyrobotstxt')} (a port of Google's)",
            lambda body, path: Port().allowed_by_robots(body, [BOT], f"http://a.test{path}"),
        )
    with suppress(ImportError):
        from robotstxt import RobotsMatcher as Google

        def by_google(body: bytes, path: str) -> bool:
            return bool(Google().is_allowed(text_of(body), BOT, f"http://a.test{path}"))

        yield f"fast-robotstxt {version('fast-robotstxt')} (Google's own, bound)", by_google


def wget(folder: str, proxy: str, seeds: list[str]) -> None:
    """Fetch some pages and what they link to with wget, through a server that plays all hosts."""
    line = ["wget", "-q", "-r", "-l1", "-t1", "-T5", "-e", "use_proxy=yes"]
    line += ["-e", f"http_proxy=http://{proxy}", *seeds]
    subprocess.run(line, cwd=folder, env={"PATH": "/usr/bin:/bin"}, timeout=120, check=False)


def wget_verdicts() -> dict[str, bool]:
    """Return what wget fetched of each case; it is called Wget, whatever it is told."""
    cases = {f"case{n}.test": case for n, case in enumerate(CASES) if case.path != "/robots.txt"}
    files = {
        host: case.robots.replace(b"FooBot", b"Wget").replace(b"fOObOT", b"wGET")
        for host, case in cases.items()
    }

    def answer(host: str, path: str) -> Answer | None:
        if path == "/robots.txt":
            return Answer(files[host].decode("latin-1"), headers={"Content-Type": "text/plain"})
        return page(cases[host].path) if path == "/start" else page()

    with Site({}, answer) as site, tempfile.TemporaryDirectory() as folder:
        # Bytes that are not ASCII would be encoded by the server.
        ascii_only = [host for host, body in files.items() if body.isascii()]
        wget(folder, site.address, [f"http://{host}/start" for host in ascii_only])
        asked = {(fetch.host, fetch.path) for fetch in site.fetches}
    return {cases[host].claim: (host, cases[host].path) in asked for host in ascii_only}


def as_matcher(verdicts: Mapping[str, bool], case: Case) -> bool | None:
    return verdicts.get(case.claim)


class Pages(Spider):
    name = "pages"
    start_urls = tuple(f"http://{name}.test{path}" for name in FETCHES for path in ALL)

    def parse(self, response: Any) -> None:
        pass


def fetched(crawl: Callable[[Site], None]) -> dict[str, list[str]]:
    """Return which pages of `FETCHES` a crawler fetched."""

    def answer(host: str, path: str) -> Answer | None:
        if path in ALL or path == "/start":
            return page(*ALL)
        if host == "elsewhere.test":
            return Answer("User-agent: *\nDisallow: /no\n")
        return FETCHES[host.removesuffix(".test")][0](path)

    with Site({}, answer) as site:
        crawl(site)
    return {
        name: sorted({f.path for f in site.fetches if f.host == f"{name}.test" and f.path in ALL})
        for name in FETCHES
    }


def print_fetches() -> None:
    """Print which pages each crawler fetches after what its request for robots.txt got."""
    settings = {"ADDONS": {}, "ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    crawlers = {"Scrapy": fetched(lambda site: (run_spider(Pages, settings, site=site), None)[1])}
    if shutil.which("wget"):
        with tempfile.TemporaryDirectory() as folder:
            seeds = [f"http://{name}.test/start" for name in FETCHES]
            crawlers["wget"] = fetched(lambda site: wget(folder, site.address, seeds))
    words = {0: "nothing", 1: "what is allowed", 2: "everything"}
    print(f"\n| robots.txt | crawlprio fetches | {' | '.join(crawlers)} |")
    print("|---" * (2 + len(crawlers)) + "|")
    for name, (_, ours) in FETCHES.items():
        cells = [words[len(ours)]]
        for got in crawlers.values():
            same = got[name] == ours
            cells.append("the same" if same else f"**{words[len(got[name])]}**")
        print(f"| {name.replace('-', ' ')} | {' | '.join(cells)} |")


def main() -> None:
    answers: dict[str, list[bool | None]] = {}
    for name, matcher in matchers():
        answers[name] = []
        for case in CASES:
            try:
                answers[name].append(matcher(case.robots, case.path))
            except Exception as error:  # a peer that raises has no answer
                print(f"{name}: {case.claim}: {error!r}", file=sys.stderr)
                answers[name].append(not case.allowed)
    if shutil.which("wget"):
        verdicts = wget_verdicts()
        line = subprocess.run(["wget", "--version"], capture_output=True, text=True, check=True)
        name = f"wget {line.stdout.split()[2]}"
        answers[name] = [as_matcher(verdicts, case) for case in CASES]
    wrong = {
        name: [case for case, answer in zip(CASES, given, strict=True)
               if answer not in (None, case.allowed)]
        for name, given in answers.items()
    }  # fmt: skip
    print("| matcher | answers as the RFC says | forbids what it allows | allows what it forbids |")
    print("|---|---|---|---|")
    for name, given in answers.items():
        n_asked = sum(answer is not None for answer in given)
        n_strict = sum(case.allowed for case in wrong[name])
        n_wrong = len(wrong[name])
        print(f"| {name} | {n_asked - n_wrong} of {n_asked} | {n_strict} | {n_wrong - n_strict} |")
    print("\n| RFC 9309 | case | answered otherwise by |\n|---|---|---|")
    for case in CASES:
        others = [name.split()[0] for name, cases in wrong.items() if case in cases]
        if others:
            print(f"| {case.source} | {case.claim} | {', '.join(others)} |")
    print_fetches()


if __name__ == "__main__":
    main()
