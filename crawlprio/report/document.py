"""The report as one HTML page, with everything that it needs inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from crawlprio.errors import ConfigError
from crawlprio.extras import require
from crawlprio.report import sections
from crawlprio.report.compared import ComparedCrawls
from crawlprio.report.crawled import ReportedCrawl
from crawlprio.report.parts import Section, text
from crawlprio.report.sites import sites

NEEDED = ("bokeh", "jinja2", "networkx")

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The content security policy of the page: nothing is requested, and only its own scripts run."""


def check_report() -> None:
    """Raise `ConfigError` if a package is missing that a report needs."""
    for module in NEEDED:
        require(module, "report", "--report")


def write_report(path: str | Path, crawl: ReportedCrawl) -> None:
    """Write the report of a crawl.

    Raises
    ------
    ConfigError
        If the file cannot be written.
    """
    got = crawl.receipt["got"]
    seeds = crawl.receipt["asked"]["seeds"]
    start = text(seeds[0]).text if seeds else Path(crawl.repository.name).name
    more = len(seeds) - 1
    title = f"Crawl of {start}" + (f" and {more:,} more" if more > 0 else "")
    when = f"{got['begin']} to {got['end']}" if got["begin"] else "nothing fetched"
    page = rendered(
        title,
        f"{text(crawl.repository.name).text}: {got['pages']:,} pages got, {got['known']:,} known, "
        f"{when}",
        [
            sections.receipt(crawl),
            sections.coverage(crawl),
            sections.top(crawl),
            sites(crawl),
            sections.time(crawl),
            sections.depth(crawl),
            sections.outcomes(crawl),
            sections.audit(crawl),
            sections.refusals(crawl),
        ],
    )
    _write(path, page)


def write_comparison(path: str | Path, crawls: ComparedCrawls) -> None:
    """Write the report of two crawls; errors as in `write_report`."""
    names = [text(crawl.repository.name).text for crawl in (crawls.a, crawls.b)]
    page = rendered("Two crawls", f"A is {names[0]}, and B is {names[1]}.", crawls.sections())
    _write(path, page)


def _write(path: str | Path, page: str) -> None:
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--report {path} could not be written ({error.strerror}).") from None


def rendered(title: str, subtitle: str, parts: Sequence[Section]) -> str:
    """Return a page of sections, as HTML; whatever they hold is escaped."""
    from bokeh.resources import Resources
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    own = files("crawlprio.report") / "page"
    template, css, script = (
        (own / f"report.{suffix}").read_text("utf-8") for suffix in ("html.jinja", "css", "js")
    )
    library = Resources(mode="inline", components=["bokeh"]).js_raw[0]
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    # In Bokeh's JSON a definition comes before what refers to it.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    charts = [chart for section in parts for chart in section.charts]
    return environment.from_string(template).render(
        title=title,
        subtitle=subtitle,
        sections=parts,
        figures={chart.name: chart.figure for chart in charts},
        policy=POLICY.format(scripts=" ".join(_hash(each) for each in (library, script))),
        css=Markup(css),
        library=Markup(library),
        script=Markup(script),
        made=f"Made by crawlprio {version('crawlprio')}. Charts: Bokeh {version('bokeh')}.",
    )


def _hash(script: str) -> str:
    """Return the hash by which a policy allows a script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
