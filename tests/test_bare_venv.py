"""The steps of a new user: install into an empty environment, crawl, kill, resume, score.

It installs from a package registry, so only `make bare` runs it.
"""

import os
import subprocess
import sys
from collections import Counter

import pytest
from crawls import ROOT, Site, n_recorded, page
from forked import run_to_end, running
from waiting import until

N_PAGES = 400
WEB = {
    f"/{n}": page(*(f"/{m}" for m in (2 * n, 2 * n + 1) if m < N_PAGES)) for n in range(1, N_PAGES)
}
WEB["/"] = page("/1")


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
        store, log = empty / "job" / "crawl.sqlite", tmp_path / "log"
        with (
            log.open("w") as file,
            running([program, *line], empty, env=environment, stderr=file) as crawl,
        ):
            until(lambda: n_recorded(store) >= N_PAGES // 4, process=crawl, said=log.read_text)
        assert n_recorded(store) < N_PAGES
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
