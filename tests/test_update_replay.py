"""Thirty updates of a website whose git history a server replays, beside a simulation of them."""

import random
import re

import pytest
from commands import run_command
from crawls import ADDON, ONE_AT_A_TIME, run_spider
from replays import Replay, Source, commit_days, simulated_updates, stopped_clock

from crawlprio.plugins.update.updating import read_passes
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

N_PAGES, N_DAYS, N_FETCHES = 24, 31, 5

FIRST_DAY = 20_000

SOURCE = Source("made up", "nobody/nothing", "main", "paper.test")

WORDS = "bread milk eggs salt oats rice corn figs plums tea jam nuts".split()  # noqa: SIM905


def path_of(page):
    return f"p{page:02}.html" if page else "index.html"


def made_up_days():
    """Return the files of a site by day.

    Pages change at rates of their own, new ones appear, one goes; each week, the date of a build
    changes on all pages, as does the number of pages in their menu with each new one.
    """
    rng = random.Random(49)
    rates = [rng.choice((0.0, 0.05, 0.2, 0.7)) for _ in range(N_PAGES)]
    born = [0 if page < 12 else rng.randrange(1, 20) for page in range(N_PAGES)]
    gone = {7: 15}
    links = [rng.sample(range(N_PAGES), 3) for _ in range(N_PAGES)]
    for page in range(1, N_PAGES):
        links[page // 2].append(page)
    versions, days = [0] * N_PAGES, {}
    for day in range(N_DAYS):
        versions = [
            version + (rng.random() < rate) for version, rate in zip(versions, rates, strict=True)
        ]
        there = [page for page in range(N_PAGES) if born[page] <= day < gone.get(page, N_DAYS)]
        ever = [page for page in range(N_PAGES) if born[page] <= day]
        days[FIRST_DAY + day] = {
            path_of(page): html(page, versions, links, day, ever) for page in there
        }
    return days


def html(page, versions, links, day, ever):
    anchors = "".join(
        f'<li><a href="/{"" if not to else path_of(to)}">{WORDS[to % 12]} {to}</a>'
        for to in sorted(set(links[page]) - {page}, key=path_of)
        if to in ever
    )
    return (
        f"<title>Page {page}</title><p>All {len(ever)} pages</p><h1>Page {page}</h1>"
        f"<p>{WORDS[page % 12]} {page} {versions[page]}</p><ul>{anchors}</ul>"
        f"<p>Built on day {day // 7}</p>"
    )


def crawl(site, job, **settings):
    """Crawl the site, or update the crawl."""
    kept = {"JOBDIR": str(job), "CRAWLPRIO_STORE": "crawl.sqlite", "CRAWLPRIO_UPDATE": "changed"}
    return run_spider(
        SiteSpider, {**ADDON, **ONE_AT_A_TIME, **kept, **settings}, site=site,
        seeds=f"http://{SOURCE.host}/",
    )  # fmt: skip


@pytest.mark.slow
def test_the_report_of_an_updated_crawl_draws_freshness_and_changes_by_update(
    tmp_path, monkeypatch, capsys
):
    """And that of a crawl that was never updated has no such section."""
    commit_days(tmp_path / "git", made_up_days())
    job, html = tmp_path / "job", tmp_path / "report.html"
    with Replay(tmp_path / "git", SOURCE) as site:
        clock = stopped_clock(monkeypatch, 0.0)
        for day in (FIRST_DAY, FIRST_DAY + 1, FIRST_DAY + 3):
            site.now, clock[0] = day, day * 86_400.0
            crawl(site, job)
            assert run_command("score", job, "--report", html) == 0
            assert ('id="updates"' in html.read_text()) == (day > FIRST_DAY)
    with Store.open(job / "crawl.sqlite", readonly=True) as store:
        first, second, third = read_passes(store)
    assert first.fresh == 1.0 > second.fresh > third.fresh > 0.0
    table = html.read_text().partition('id="updates"')[2].partition("</table>")[0]
    cells = re.findall(r"<bdi>([^<]*)</bdi></td>", table)
    assert [cells[at : at + 7] for at in range(0, len(cells), 7)] == [
        [str(number), f"2024-10-{day:02}", f"{each.fresh:.1%}", *map(str, each[3:7])]
        for number, day, each in ((3, 7, third), (2, 5, second))
    ]
    assert second.n_changed > 0
    assert third.n_new > 0


@pytest.mark.slow
def test_thirty_updates_fetch_in_the_order_that_the_history_and_the_key_alone_give(
    tmp_path, monkeypatch
):
    """The server says 304, 404, ETag and Last-Modified as the commits have it, a day a pass."""
    commit_days(tmp_path / "git", made_up_days())
    with Replay(tmp_path / "git", SOURCE) as site:
        clock = stopped_clock(monkeypatch, 0.0)
        n_found = n_304 = 0
        updates = simulated_updates(site, N_FETCHES)
        for day in range(FIRST_DAY, FIRST_DAY + N_DAYS):
            site.now, clock[0] = day, day * 86_400.0
            bounds = {"CRAWLPRIO_MAX_PAGES": N_FETCHES}
            how = bounds if day > FIRST_DAY else {"ORDERING": "breadth-first"}
            run = crawl(site, tmp_path / "job", **how)
            n_304 += run.stats.get("downloader/response_status_count/304", 0)
            fetched = site.pages()
            if day > FIRST_DAY:
                pages, n_changed = next(updates)
                assert (day, fetched) == (day, pages)
                n_found += n_changed
        with Store.open(tmp_path / "job" / "crawl.sqlite", readonly=True) as store:
            passes = read_passes(store)[1:]
    n_true = true_changes(site.history)
    live = sum(each.n_changed + each.n_gone for each in passes)
    assert (len(passes), n_304 > N_FETCHES, n_found > N_DAYS) == (30, True, True)
    assert abs(live - n_found) / n_true <= 0.01


def true_changes(history):
    """Return how often a page said something else than the day before, or went."""
    return sum(
        int(
            (
                (old >= 0) & (old != new) & ((new < 0) | (history.cores[old] != history.cores[new]))
            ).sum()
        )
        for old, new in zip(history.states, history.states[1:], strict=False)
    )
