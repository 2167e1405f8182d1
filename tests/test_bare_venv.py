"""The steps of a new user: install into an empty environment, crawl, kill, resume, score.

It installs from a package registry, so only `make bare` runs it.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from time import monotonic, sleep

import pytest
from crawls import ROOT, Site, page
from forked import run_to_end

N_PAGES = 400
WEB = {
    f"/{n}": page(*(f"/{m}" for m in (2 * n, 2 * n + 1) if m < N_PAGES)) for n in range(1, N_PAGES)
}
WEB["/"] = page("/1")


def n_visits(store):
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=30)) as db,
    ):
        return int(db.execute("SELECT count(*) FROM visits").fetchone()[0])
    return 0


@pytest.mark.skipif(not os.environ.get("CRAWLPRIO_BARE"), reason="make bare runs it")
def test_a_crawl_from_an_empty_folder_is_killed_resumed_and_scored(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    program = tmp_path / "venv" / "bin" / "crawlprio"
    pip = [program.with_name("python"), "-m", "pip", "install", "--quiet", ROOT]
    subprocess.run(pip, check=True, timeout=900)
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")
    }

    def crawlprio(*words):
        return run_to_end([program, *words], empty, env=environment)

    with Site(WEB) as site:
        line = ["crawl", f"http://{site.address}/", "--folder", "job", "--delay", "0.005"]
        crawl = subprocess.Popen(
            [program, *line], cwd=empty, env=environment, stderr=subprocess.PIPE
        )
        deadline = monotonic() + 300
        while n_visits(empty / "job" / "crawl.sqlite") < N_PAGES // 4:
            assert crawl.poll() is None, crawl.stderr and crawl.stderr.read()
            assert monotonic() < deadline
            sleep(0.01)
        crawl.send_signal(signal.SIGKILL)
        crawl.communicate()
        assert n_visits(empty / "job" / "crawl.sqlite") < N_PAGES
        resumed = crawlprio("resume", "job")
        assert resumed.returncode == 0, resumed.stderr
        assert "resumed with" in resumed.stdout + resumed.stderr
        fetched = Counter(site.paths())
    assert set(fetched) == set(WEB)
    # With one fetch at a time, the fetch in flight at the kill may be repeated.
    assert sum(fetched.values()) <= len(WEB) + 1
    scored = crawlprio("score", "job/crawl.sqlite")
    assert scored.returncode == 0, scored.stderr
    assert f"{len(WEB):,} pages" in scored.stdout
    assert {path.name for path in empty.iterdir()} == {"job"}
