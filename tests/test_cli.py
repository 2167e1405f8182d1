"""The program `crawlprio`: what it does from any folder, and what it refuses in one sentence."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from crawls import Site, page

from crawlprio.commands.cli import COMMANDS, main

WEB = {f"/{n}": page(*(f"/{m}" for m in (2 * n, 2 * n + 1) if m < 64)) for n in range(1, 64)}
WEB["/"] = page("/1")
FAST = ["--delay", "0", "-s", "ROBOTSTXT_OBEY=False"]


def crawlprio(
    *words: str, folder: Path, timeout: float = 120.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "crawlprio.commands.cli", *words],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def urls(store: Path, where: str = "status = 200") -> list[str]:
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute(
            f"SELECT url FROM visits JOIN pages ON pages.id = page WHERE {where} ORDER BY seq"
        )
        return ["/" + url.split("/", 3)[3] for (url,) in rows]


def test_a_crawl_in_an_empty_folder_leaves_its_store_and_prints_a_report(tmp_path: Path) -> None:
    with Site(WEB) as site:
        done = crawlprio("crawl", f"http://{site.address}/", *FAST, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"pages fetched +│ 64 ", done.stdout)
    assert sorted(urls(tmp_path / "crawl.sqlite")) == sorted(WEB)


def test_a_crawl_in_a_folder_is_resumed_with_the_same_arguments(tmp_path: Path) -> None:
    web = {**WEB, "/": page("/1", "/no"), "/no": page()}
    with Site(web) as site:
        start = f"http://{site.address}/"
        given = ["--deny", "/no$", "--ordering", "breadth-first", "--folder", "job", *FAST]
        first = crawlprio("crawl", start, *given, "--pages", "20", folder=tmp_path)
        assert first.returncode == 0
        n_first = len(site.fetches)
        assert 20 <= n_first < len(WEB)
        again = crawlprio("resume", "job", folder=tmp_path)
        assert again.returncode == 0
        assert again.stderr.count("\n") == 1
        told = r"job: resumed with \d+ pages fetched and \d+ waiting, under breadth-first\."
        assert re.search(told, again.stderr)
        assert sorted(site.paths()) == sorted(WEB)
    assert urls(tmp_path / "job" / "crawl.sqlite") == ["/", *(f"/{n}" for n in range(1, 64))]
    scored = crawlprio("score", "job/crawl.sqlite", "--json", "score.json", folder=tmp_path)
    assert scored.returncode == 0
    assert json.loads((tmp_path / "score.json").read_text())["fetched"] == 64


def test_a_setting_can_be_changed_when_a_crawl_is_resumed(tmp_path: Path) -> None:
    with Site(WEB) as site:
        given = ["--folder", "job", "--pages", "5", "--ordering", "random", *FAST]
        crawlprio("crawl", f"http://{site.address}/", *given, folder=tmp_path)
        again = crawlprio("resume", "job", "-s", "ORDERING=depth-first", folder=tmp_path)
    assert "under depth-first." in again.stderr
    assert len(site.paths()) == len(set(site.paths())) == len(WEB)


def test_settings_that_name_code_or_a_file_are_not_taken_from_a_store(tmp_path: Path) -> None:
    """A job folder from somebody else must not run their code."""
    with Site(WEB) as site:
        given = ["--folder", "job", "--pages", "5", *FAST]
        crawlprio("crawl", f"http://{site.address}/", *given, folder=tmp_path)
        (tmp_path / "evil.py").write_text("open('ran', 'w')\nfrom crawlprio import Ordering\n")
        with closing(sqlite3.connect(tmp_path / "job" / "crawl.sqlite")) as db:
            (text,) = db.execute("SELECT value FROM meta WHERE key = 'given'").fetchone()
            found = json.loads(text)
            found["settings"] |= {
                "ORDERING": "evil.Ordering",
                "DUPEFILTER_CLASS": "evil.Ordering",
                "DOWNLOAD_HANDLERS": {"http": "evil.Ordering"},
                "CRAWLPRIO_SERVER_LOG": "written",
                "EXTENSIONS": {"evil.Ordering": 1},
            }
            found["arguments"] |= {"name": "evil"}
            db.execute("UPDATE meta SET value = ? WHERE key = 'given'", (json.dumps(found),))
            db.commit()
        crawlprio("resume", "job", folder=tmp_path, PYTHONPATH=f"{Path.cwd()}:{tmp_path}")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "written").exists()
    with closing(sqlite3.connect(tmp_path / "job" / "crawl.sqlite")) as db:
        db.execute(
            "UPDATE meta SET value = ? WHERE key = 'given'",
            (json.dumps({"arguments": {"seeds": "@/etc/passwd"}, "settings": {}}),),
        )
        db.commit()
    refused = crawlprio("resume", "job", folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "the file is damaged" in refused.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["crawl"], "crawlprio crawl was given no URL; say where to start"),
        (["crawl", "example.org"], "seeds: 'example.org'"),
        (["crawl", "--demo", "http://a.test/"], "takes no URL"),
        (["crawl", "--follow", "all", "http://a.test/"], "follow is 'all'"),
        (["crawl", "--fast", "http://a.test/"], "--fast"),
        (["crawl", "@no-file"], "'no-file' cannot be read"),
        (["resume"], "takes one FOLDER"),
        (["resume", "nowhere"], "nowhere has no crawl to resume"),
        (["sore", "x"], "crawlprio has no command sore; known commands: crawl, resume"),
        (["score"], "crawlprio score takes one"),
        (["replay", "none.warc"], "none.warc: no such file"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    words: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["crawlprio", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", ["ORDERING=opick", "CRAWLPRIO_STORES=x", "DOWNLOAD_DELAY=-1"])
def test_a_bad_setting_is_one_line_and_status_2(setting: str, tmp_path: Path) -> None:
    done = crawlprio("crawl", "http://a.test/", "-s", setting, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert setting.partition("=")[0] in done.stderr


@pytest.mark.parametrize("name", [(), *((command,) for command in COMMANDS)])
def test_help_fits_80_columns_and_names_the_program(
    name: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["crawlprio", *name, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert shown.lower().count("usage") == 1
    assert f"crawlprio {' '.join(name)}".strip() in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "scrapy " not in shown
