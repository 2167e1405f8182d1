"""A website's git history behind a server with a clock of its own, and updates simulated on it."""

import math
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from email.utils import format_datetime

import numpy as np
from crawls import ROOT, Answer, Site

from crawlprio.plugins.update import gain
from crawlprio.ranking.pagerank import pagerank

sys.path.append(str(ROOT / "benchmarks"))

from histories import GONE, Repository, Source, page_of, read_history  # noqa: F401


def stopped_clock(monkeypatch, now):
    """Return a list of the Unix time that crawls in this process go by, until it is set again."""
    clock = [now]
    for name in ("crawlprio.live.leases.time", "crawlprio.plugins.update.updating.time"):
        monkeypatch.setattr(name, lambda: clock[0])
    return clock


def commit_days(folder, days):
    """Write a bare git repository with a commit for each day: `days` has the files of each."""
    subprocess.run(["git", "init", "--quiet", "--bare", folder], check=True)
    lines = []
    for day, files in sorted(days.items()):
        lines += [f"commit refs/heads/main\ncommitter A <a@b.test> {day * 86_400} +0000"]
        lines += ["data 0\ndeleteall"]
        for path, text in files.items():
            lines += [f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}"]
    stream = "\n".join([*lines, ""]).encode()
    subprocess.run(["git", "-C", folder, "fast-import", "--quiet"], input=stream, check=True)


class Replay(Site):
    """Serves what a history has on its day `now`: ETag, Last-Modified, 304 and 404 as committed."""

    def __init__(self, folder, source):
        self._repository, self._source = Repository(folder, source), source
        self.history, self.sameness = read_history(self._repository, source)
        self._place = {path: at for at, path in enumerate(self.history.paths)}
        self.now = self.history.days[0]
        super().__init__({})

    def __exit__(self, *_):
        super().__exit__()
        self._repository.close()

    def state(self, day):
        """Return the version of each page on a day."""
        at = int(np.searchsorted(self.history.days, day, side="right")) - 1
        return self.history.states[at]

    def page(self, path):
        return page_of(f"http://{self._source.host}{path}", self._source, self._place)

    def pages(self):
        """Return the pages that were asked for since the last call, in order."""
        found, self.fetches = [self.page(path) for path in self.paths()], []
        return found

    def answer_to(self, fetch):
        page = self.page(fetch.path)
        version = GONE if page is None else int(self.state(self.now)[page])
        if version == GONE:
            return Answer("nothing here", 404)
        since = next(
            day for day in self.history.days if self.state(day)[page] == version
        )  # as no version comes back
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "ETag": f'"{self.history.blobs[version].decode()}"',
            "Last-Modified": format_datetime(datetime.fromtimestamp(since * 86_400, UTC), True),
        }
        tags = fetch.headers.get("if-none-match"), fetch.headers.get("if-modified-since")
        is_same = tags[0] == headers["ETag"] if tags[0] else tags[1] == headers["Last-Modified"]
        if is_same:
            return Answer("", 304, headers)
        return Answer(
            self._repository.read(self.history.blobs[version].decode()).decode(), 200, headers
        )


def simulated_updates(site, n_fetches):
    """Yield the pages that each update fetches, and how many had changed.

    From the true history and the key alone: it knows nothing of a store. The first day has no
    update, but fetches all. Ids are given in order of discovery, as crawls give them.
    """
    history = site.history
    ids, held, checked, rows = {home: at for at, home in enumerate(history.homes)}, {}, {}, {}
    n_checks, exposure, n_changes, n_new = Counter(), Counter(), Counter(), Counter()

    def fetch(day, page):
        version = int(site.state(day)[page])
        targets = [] if version == GONE else history.links[version].tolist()
        new = [to for to in targets if to not in ids]
        for to in new:
            ids[to] = len(ids)
        content = version != GONE and (int(history.cores[version]), targets)
        is_changed = page in held and content != held[page]
        if page in held:
            n_changes[page] += is_changed
            n_checks[page] += 1
            exposure[page] += (day - checked[page]) / (2 if is_changed else 1)
            n_new[page] += len(new)
        held[page], checked[page], rows[page] = content, day, [ids[to] for to in targets]
        return is_changed

    n_done = 0
    while n_done < len(ids):
        fetch(history.days[0], [*ids][n_done])
        n_done += 1
    for day in range(history.days[0] + 1, history.days[-1] + 1):
        known = [*ids]
        columns = np.zeros((8, len(known)))
        for at, page in enumerate(known):
            age = day - checked[page] if page in checked else math.nan
            columns[:6, at] = age, 0, n_checks[page], exposure[page], n_changes[page], n_new[page]
        links = [rows.get(page, []) for page in known]
        indptr = np.concatenate([[0], np.cumsum([*map(len, links)])])
        weights = pagerank(indptr, np.array([to for row in links for to in row]))
        sites = np.zeros(len(known), np.int32)
        keys, usual, _ = gain.gains(gain.History(*columns), weights, sites)
        waiting = dict(zip(known, keys.tolist(), strict=True))
        fetched, n_found = [], 0
        while waiting and len(fetched) < n_fetches:
            page = max(waiting, key=lambda page: (waiting[page], -ids[page]))
            del waiting[page]
            fetched.append(page)
            n_found += fetch(day, page)
            waiting |= {
                to: usual
                for to in ids
                if to not in waiting and to not in known and to not in fetched
            }
        yield fetched, n_found
