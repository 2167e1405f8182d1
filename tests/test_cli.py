"""The program `crawlprio`: what it does from any folder, and what it refuses in one sentence."""

import argparse
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest
from browsers import serving
from commands import refusal
from crawls import ROOT, Answer, Site, page
from forked import Forked, run_forked, running
from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter
from scrapy.settings import Settings
from stores import change, query, visited_urls
from waiting import until

from crawlprio import __version__
from crawlprio.commands.cli import COMMANDS, command_of, main
from crawlprio.plugins.value.classifier import FORMAT

WEB = {f"/{n}": page(*(f"/{m}" for m in (2 * n, 2 * n + 1) if m < 64)) for n in range(1, 64)}
WEB["/"] = page("/1")
FAST = ["--delay", "0", "-s", "ROBOTSTXT_OBEY=False"]


def crawlprio(*words, folder, check=False, **environment):
    every = {"COLUMNS": "80", **environment}
    return run_forked("crawlprio", words, folder, timeout=300.0, environment=every, check=check)


def urls(store, where="status = 200"):
    return ["/" + url.split("/", 3)[3] for url in visited_urls(store, where)]


def test_a_crawl_in_a_folder_is_resumed_with_the_same_arguments(tmp_path):
    web = {**WEB, "/": page("/1", "/no"), "/no": page()}
    with Site(web) as site:
        start = f"http://{site.address}/"
        given = ["--deny", "/no$", "--ordering", "breadth-first", "--folder", "job", *FAST]
        crawlprio("crawl", start, *given, "--pages", "20", folder=tmp_path, check=True)
        n_first = len(site.fetches)
        assert 20 <= n_first < len(WEB)
        again = crawlprio("resume", "job", folder=tmp_path, check=True)
        before, now = again.stderr.splitlines()
        assert before == (
            "crawlprio: options as before: --deny '/no$' --delay 0 --ordering breadth-first -s "
            "ROBOTSTXT_OBEY=False; not kept: --pages."
        )
        told = r"job: resumed with \d+ pages fetched and \d+ waiting, under breadth-first\."
        assert re.search(told, now)
        assert sorted(site.paths()) == sorted(WEB)
    assert urls(tmp_path / "job" / "crawl.sqlite") == ["/", *(f"/{n}" for n in range(1, 64))]
    crawlprio("score", "job/crawl.sqlite", "--json", "score.json", folder=tmp_path, check=True)
    assert json.loads((tmp_path / "score.json").read_text())["fetched"] == 64


def given_to(store):
    """Return the settings that a store keeps of the last command line."""
    ((text,),) = query(store, "SELECT value FROM meta WHERE key = 'given'")
    return json.loads(text)["settings"]


OPTIONS = [
    *("--warc", "archive/warc", "--requisites", "all", "--keep-text", "--sitemaps", "robots"),
    *("--topic", "some words", "--value", "model.json", "--novelty", "exact", "--depth", "50"),
    *("--at-once", "3", "--ordering", "opic", "-s", 'ORDERING_OPTIONS={"site_share": 2}'),
    *("--contact", "me@example.org", "--monitor", "--delay", "0", "-s", "RETRY_TIMES=1"),
]


def test_a_resumed_crawl_has_every_option_of_the_crawl_from_any_folder(tmp_path):
    model = {"format": FORMAT, "bias": 0.0, "weights": {"7": 1.0}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "elsewhere").mkdir()
    store = tmp_path / "job" / "own.sqlite"
    with Site(WEB) as site:
        given = ["--folder", "job", "--store", "own.sqlite", "--pages", "5", *OPTIONS]
        given += ["-s", 'DEFAULT_REQUEST_HEADERS={"Authorization": "Basic YTpi"}']
        crawlprio("crawl", f"http://{site.address}/", *given, folder=tmp_path, check=True)
        before = given_to(store)
        again = crawlprio("resume", "../job", folder=tmp_path / "elsewhere")
    assert again.returncode == 0, again.stderr
    assert given_to(store) == before
    assert {"CRAWLPRIO_WARC": "../archive/warc", "RETRY_TIMES": "1"}.items() <= before.items()
    assert before["CRAWLPRIO_VALUE"] == "classifier:../model.json"
    assert len(list((tmp_path / "archive" / "warc").glob("*.warc.gz"))) == 2
    told = again.stderr.splitlines()[0]
    assert told.endswith("; not kept: --pages, -s DEFAULT_REQUEST_HEADERS.")
    for shown in ("--warc ../archive/warc", "--keep-text", "--value classifier:../model.json"):
        assert shown in told


def test_a_store_has_no_passwords_and_a_resume_without_its_key_or_archive_is_refused(tmp_path):
    secret = ["-s", 'REDIS_PARAMS={"password": "hush"}', "-s", "REDIS_URL=redis://:hush@a/"]
    secret += ["--sitemaps", "http://me:hush@a.test/sitemap.xml"]
    with Site(WEB) as site:
        given = ["--folder", "job", "--pages", "5", "--warc", "warc", *FAST]
        crawlprio("crawl", f"http://{site.address}/", *given, *secret, folder=tmp_path)
    for file in tmp_path.rglob("*.*"):
        content = file.read_bytes() if file.suffix != ".gz" else gzip.decompress(file.read_bytes())
        assert b"hush" not in content
    refused = crawlprio("resume", "job", folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "the crawl in job had --sitemaps, -s REDIS_PARAMS, -s REDIS_URL, which" in refused.stderr
    (tmp_path / "warc").rename(tmp_path / "moved")
    refused = crawlprio("resume", "job", folder=tmp_path)
    assert "--warc" in refused.stderr


def test_a_resumed_crawl_takes_every_option_of_a_crawl_that_is_not_about_where_it_is(
    monkeypatch, capsys
):
    def options(command):
        monkeypatch.setattr(sys, "argv", ["crawlprio", command, "--help"])
        with pytest.raises(SystemExit):
            main()
        return re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)

    assert options("resume") == [
        name for name in options("crawl") if name not in ("--folder", "--demo", "--plan", "--json")
    ]


def test_the_user_agent_of_a_resumed_crawl_keeps_what_is_not_given_again(tmp_path):
    with Site(WEB) as site:
        given = ["--folder", "job", "--pages", "3", *FAST]
        own = ["--agent", "mybot/2", "--contact", "me@example.org"]
        crawlprio("crawl", f"http://{site.address}/", *given, *own, folder=tmp_path)
        resumed = ["resume", "job", "--pages", "3", "--delay", "0", "--ordering", "opic"]
        done = crawlprio(*resumed, "--contact", "https://a.test/us", folder=tmp_path)
        assert "under opic." in done.stderr
        seen = list(dict.fromkeys(fetch.headers["user-agent"] for fetch in site.fetches))
    ours = f"crawlprio/{__version__}"
    assert seen == [f"mybot/2 {ours} (me@example.org)", f"mybot/2 {ours} (+https://a.test/us)"]


@pytest.mark.parametrize(
    ("options", "n_told"),
    [
        ([], 1),
        (["--contact", "me@example.org"], 0),
        (["-s", "CRAWLPRIO_CONTACT=me@example.org"], 0),
        (["-s", "USER_AGENT=x (+http://a.b)"], 0),
    ],
)
def test_a_crawl_of_the_open_web_says_once_that_it_names_no_contact(options, n_told, tmp_path):
    line = ["crawl", "http://a.test/", *FAST, "-s", "RETRY_ENABLED=False", *options]
    done = crawlprio(*line, folder=tmp_path, http_proxy="http://127.0.0.1:1", no_proxy="")
    assert done.returncode == 1
    assert done.stderr.count("whom the owners of a site could reach") == n_told


def test_items_can_go_to_standard_output_and_the_report_then_does_not(tmp_path):
    with Site({"/": page("/1"), "/1": page()}) as site:
        done = crawlprio(
            "crawl", f"http://{site.address}/", *FAST, "-o", "-:jsonl", folder=tmp_path
        )
    assert [json.loads(line)["source"] for line in done.stdout.splitlines()] == [
        f"http://{site.address}/",
        f"http://{site.address}/1",
    ]
    assert "pages fetched" in done.stderr


def test_the_ordering_in_the_docs_runs_from_the_working_folder_in_every_command(tmp_path):
    docs = (ROOT / "docs" / "orderings.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n# myproject/orderings.py\n(.*?)```", docs, re.DOTALL)
    (tmp_path / "myproject").mkdir()
    (tmp_path / "myproject" / "orderings.py").write_text(code)
    web = {"/": page("/aa", "/b", "/cccc"), "/aa": page(), "/b": page(), "/cccc": page()}
    name = "myproject.orderings.LongestAnchor"
    with Site(web) as site:
        start = f"http://{site.address}/"
        given = ["--ordering", name, "--at-once", "1", "--folder", "job"]
        done = crawlprio("crawl", start, *given, *FAST, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    order = ["/", "/cccc", "/aa", "/b"]
    assert urls(tmp_path / "job" / "crawl.sqlite") == order
    for command in ("simulate", "replay"):
        line = ["job/crawl.sqlite", "-s", f"ORDERING={name}"]
        if command == "simulate":
            line = ["job/crawl.sqlite", "--ordering", name, "--order", "order.txt"]
        done = crawlprio(command, *line, folder=tmp_path)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    crawlprio("resume", "job", "-s", f"ORDERING={name}", folder=tmp_path, check=True)
    refused = crawlprio("resume", "job", folder=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"the crawl in job used the ordering {name}, and a store must not choose code to run; give "
        "the ordering again, with --ordering.\n"
    )


def test_a_second_interrupt_ends_the_crawl_with_its_table_and_status_130(tmp_path):
    asked = threading.Event()

    def answer(host, path):
        if path != "/1":
            return None
        asked.set()
        return Answer(seconds=600.0)

    with Site({"/": page("/1")}, answer) as site:
        words = ["crawl", f"http://{site.address}/", *FAST, "--folder", "job", "-L", "INFO"]
        shown, log = tmp_path / "shown.txt", tmp_path / "log.txt"
        process = Forked("crawlprio", words, tmp_path, stdout=shown, stderr=log)
        until(asked.is_set, process=process, said=log.read_text)
        process.send_signal(signal.SIGINT)
        until(lambda: "shutting down gracefully" in log.read_text(), process=process)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert "Traceback" not in log.read_text()
        assert re.search(r"ended because +│ interrupted", shown.read_text())
        assert re.search(r"pages fetched +│ 1 ", shown.read_text())
    assert urls(tmp_path / "job" / "crawl.sqlite") == ["/"]


BUSY = """
import pathlib, time
pathlib.Path("busy").touch()
time.sleep(600)
"""
DURING = {
    "imports": (BUSY, ["-s", 'DOWNLOADER_MIDDLEWARES={"own_busy.Middleware": 1}']),
    "a turn of the event loop": (
        "import scrapy\n\nclass Busy:\n    def __init__(self):"
        + BUSY.replace("\n", "\n        ")
        + "\n",
        ["-s", 'EXTENSIONS={"own_busy.Busy": 1}'],
    ),
}


@pytest.mark.parametrize("during", DURING)
def test_interrupts_end_a_busy_crawl_with_status_130_even_in_the_background_of_a_script(
    tmp_path, during
):
    code, words = DURING[during]
    (tmp_path / "own_busy.py").write_text(code)
    line = [sys.executable, "-m", "crawlprio", "crawl", "http://127.0.0.1:9/", *words]
    ignores = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    with running(line, tmp_path, stderr=subprocess.PIPE, **ignores) as process:
        until((tmp_path / "busy").exists, process=process)
        for _ in range(400):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
                break
        process.kill()
        logged = process.communicate()[1]
    assert process.returncode == 130, logged
    assert "Traceback" not in logged


def test_a_replay_leaves_the_store_and_the_plot_of_crawls_alone(tmp_path):
    with Site({"/": page("/1"), "/1": page()}) as site:
        crawlprio("crawl", f"http://{site.address}/", *FAST, folder=tmp_path)
    (tmp_path / "crawl.png").write_text("mine")
    crawled = (tmp_path / "crawl.sqlite").read_bytes()
    done = crawlprio("replay", "crawl.sqlite", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "crawl.sqlite").read_bytes() == crawled
    assert (tmp_path / "crawl.png").read_text() == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("crawl.png", "crawl.sqlite", "receipt.json", "replay.png", "replay.sqlite")
    ]


def test_a_folder_is_not_crawled_from_other_seeds(tmp_path):
    with Site(WEB) as site:
        start = f"http://{site.address}/"
        crawlprio("crawl", start, *FAST, "--folder", "job", "--pages", "3", folder=tmp_path)
        n_fetched = len(site.fetches)
        done = crawlprio("crawl", f"{start}9", *FAST, "--folder", "job", folder=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"JOBDIR job holds a crawl that started at {start};" in done.stderr
        assert len(site.fetches) == n_fetched
        crawlprio("crawl", start, *FAST, "--folder", "job", folder=tmp_path, check=True)
    assert sorted(site.paths()) == sorted(WEB)


def test_the_earlier_stores_to_keep_can_be_limited_and_are_named_at_the_end(tmp_path):
    (tmp_path / "crawl.7.sqlite").write_text("not a store")
    with Site({f"/{n}": page() for n in range(4)}) as site:
        for n_before in range(4):
            line = ["crawl", f"http://{site.address}/{n_before}", *FAST]
            done = crawlprio(*line, "-s", "CRAWLPRIO_KEEP_STORES=2", folder=tmp_path)
            told = re.search(r"earlier stores kept +│ (\d)", done.stdout)
            assert (0 if told is None else int(told[1])) == min(n_before, 2)
    files = [file for file in tmp_path.glob("crawl*.sqlite") if file.name != "crawl.7.sqlite"]
    assert sorted(urls(file)[0] for file in files) == ["/1", "/2", "/3"]
    assert urls(tmp_path / "crawl.sqlite") == ["/3"]


def test_a_crawl_gets_as_many_pages_as_asked_whatever_else_it_fetches(tmp_path):
    lost = {f"/lost/{n}": Answer("", 404) for n in range(6)}
    moved = {f"/moved/{n}": Answer("", 302, {"Location": f"/there/{n}"}) for n in range(3)}
    there = {f"/there/{n}": page() for n in range(3)}
    web = {**WEB, **lost, **moved, **there, "/": page(*lost, *moved, "/1")}
    with Site(web) as site:
        line = ["crawl", f"http://{site.address}/", "--delay", "0", "--folder", "job"]
        line += ["--ordering", "breadth-first", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=4"]
        done = crawlprio(*line, "--pages", "15", folder=tmp_path, check=True)
        assert re.search(r"pages fetched +│ 15 ", done.stdout)
        assert re.search(r"failed +│ 6 ", done.stdout)
        assert len(site.fetches) == 15 + 6 + 1  # robots.txt
        again = crawlprio("resume", "job", "--pages", "10", folder=tmp_path)
        assert re.search(r"pages fetched +│ 25 ", again.stdout)
        assert len(site.fetches) == 15 + 6 + 1 + 10 + 1
        last = crawlprio("resume", "job", folder=tmp_path)
        assert "not kept: --pages." in last.stderr
    store = tmp_path / "job" / "crawl.sqlite"
    assert len(urls(store, "status BETWEEN 200 AND 399")) == len(web) - len(lost)


@pytest.mark.parametrize(
    ("line", "own", "resumed", "plain_has", "own_has"),
    [
        (
            ["--topic", "dead rows"],
            ["-s", 'TOPIC_OPTIONS={"distance": 2}', "--value", "query:rows"],
            ["--topic", "live rows"],
            ("dead rows", '{"distance": 0}', "value", "words:dead rows"),
            ("live rows", '{"distance": 0}', "value", "words:live rows"),
        ),
        (
            ["--value", "words:rows"],
            [],
            ["--value", "words:dead"],
            (None, None, "value", "words:rows"),
            (None, None, "opic", "words:dead"),
        ),
    ],
    ids=["topic", "value"],
)
def test_what_a_topic_or_a_value_model_sets_gives_way_to_the_command_line(
    tmp_path, line, own, resumed, plain_has, own_has
):
    with Site({"/": page()}) as site:
        line = ["crawl", f"http://{site.address}/", *line, *FAST]
        crawlprio(*line, "--folder", "plain", folder=tmp_path)
        crawlprio(*line, "--folder", "own", "--ordering", "opic", *own, folder=tmp_path)
        crawlprio("resume", "own", *resumed, folder=tmp_path)
    names = ("TOPIC", "TOPIC_OPTIONS", "ORDERING", "CRAWLPRIO_VALUE")
    for folder, has in (("plain", plain_has), ("own", own_has)):
        given = given_to(tmp_path / folder / "crawl.sqlite")
        assert tuple(given.get(name) for name in names) == has


def test_items_of_the_bundled_spider_are_said_not_to_be_kept(tmp_path):
    with Site({"/": page()}) as site:
        start = f"http://{site.address}/"
        done = crawlprio("crawl", start, *FAST, "-s", "CRAWLPRIO_ITEMS=True", folder=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("yields only link pairs") == 1


def test_settings_that_name_code_or_a_file_are_not_taken_from_a_store(tmp_path):
    """A job folder from somebody else must not run their code."""
    with Site(WEB) as site:
        given = ["--folder", "job", "--pages", "5", *FAST]
        crawlprio("crawl", f"http://{site.address}/", *given, folder=tmp_path)
        (tmp_path / "evil.py").write_text("open('ran', 'w')\nfrom crawlprio import Ordering\n")
        store, given = tmp_path / "job" / "crawl.sqlite", "value = ? WHERE key = 'given'"
        ((text,),) = query(store, "SELECT value FROM meta WHERE key = 'given'")
        found = json.loads(text)
        found["settings"] |= {
            "ORDERING": "evil.Ordering",
            "DUPEFILTER_CLASS": "evil.Ordering",
            "DOWNLOAD_HANDLERS": '{"http": "evil.Ordering"}',
            "CRAWLPRIO_SERVER_LOG": "written",
            "EXTENSIONS": {"evil.Ordering": 1},
        }
        found["arguments"] |= {"name": "evil"}
        change(store, f"UPDATE meta SET {given}", json.dumps(found))
        crawlprio("resume", "job", folder=tmp_path, PYTHONPATH=f"{Path.cwd()}:{tmp_path}")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "written").exists()
    other = {"arguments": {"seeds": "@/etc/passwd"}, "settings": {}}
    change(store, f"UPDATE meta SET {given}", json.dumps(other))
    refused = crawlprio("resume", "job", folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "the file is damaged" in refused.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["crawl"], "crawlprio crawl needs a URL"),
        (["crawl", "example.org"], "seeds: 'example.org'"),
        (["crawl", "--demo", "http://a.test/"], "takes no URL"),
        (["crawl", "--follow", "all", "http://a.test/"], "follow is 'all'"),
        (["crawl", "--fast", "http://a.test/"], "--fast"),
        (["crawl", "@no-file"], "'no-file' cannot be read"),
        (["crawl", "--pages", "abc", "http://a.test/"], "--pages is 'abc'; give a whole number of"),
        (["crawl", "--pages", "0", "http://a.test/"], "--pages is '0'; give a whole number of 1"),
        (["crawl", "--pages", "-3", "http://a.test/"], "--pages is '-3'; give a whole number of 1"),
        (["crawl", "--at-once", "0", "http://a.test/"], "--at-once is '0'; give a whole number of"),
        (["crawl", "--delay", "soon", "http://a.test/"], "--delay is 'soon'; give a number of 0"),
        (["crawl", "--depth", "1.5", "http://a.test/"], "--depth is '1.5'; give a whole number"),
        (["crawl", "--folder", "", "http://a.test/"], "--folder is empty"),
        (["crawl", "--topic", "", "http://a.test/"], "--topic is empty"),
        (["crawl", "--store", "no/such.sqlite", "http://a.test/"], "there is no folder no"),
        (["crawl", "--contact", "me", "http://a.test/"], "--contact is 'me'; give a mail address"),
        (["crawl", "--agent", "my bot", "http://a.test/"], "--agent is 'my bot'; give a name"),
        (["frontier", "--most", "few"], "--most is 'few'; give a whole number of 1 or more."),
        (["resume"], "takes one FOLDER"),
        (["resume", "nowhere"], "nowhere has no crawl to resume"),
        (["sore", "x"], "crawlprio has no command sore; known commands: crawl, resume"),
        (["score"], "crawlprio score takes one"),
        (["replay", "none.warc"], "none.warc: no such file"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["crawlprio"])
    assert told in refusal(capsys, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "setting",
    [
        *("ORDERING=opick", "CRAWLPRIO_STORES=x", "DOWNLOAD_DELAY=-1"),
        *("CLOSESPIDER_PAGECOUNT=abc", "RETRY_TIMES=often", "COOKIES_ENABLED=maybe"),
    ],
)
def test_a_bad_setting_is_one_line_and_status_2(setting, tmp_path):
    done = crawlprio("crawl", "http://a.test/", "-s", setting, folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert setting.partition("=")[0] in done.stderr


@pytest.mark.parametrize("name", [(), *((command,) for command in COMMANDS)])
def test_help_fits_80_columns_and_names_the_program(name, monkeypatch, capsys):
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


def test_a_site_named_by_its_ipv6_address_is_crawled(tmp_path):
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6

    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "index.html").write_text("<title>six</title>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    try:
        server = Server(("::1", 0), handler)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(server):
        done = crawlprio("crawl", f"http://[::1]:{server.server_port}/", *FAST, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert urls(tmp_path / "crawl.sqlite") == ["/"]


def test_a_proxy_from_the_environment_is_named_when_it_fails(tmp_path):
    line = ["crawl", "http://site.test/", "--delay", "0", "-s", "RETRY_ENABLED=False"]
    closed = "http://me:hush@127.0.0.1:1"
    done = crawlprio(*line, folder=tmp_path, http_proxy=closed, no_proxy="")
    assert done.returncode == 1
    assert "connection refused through the proxy 127.0.0.1" in done.stderr
    assert "hush" not in done.stderr + done.stdout


@pytest.mark.parametrize("words", [["resume", "."], ["replay", "crawl.sqlite"], ["replay", "."]])
def test_what_is_no_crawl_is_invalid_input(words, tmp_path):
    (tmp_path / "crawl.sqlite").write_text("hello")
    done = crawlprio(*words, folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_plan_for_a_site_that_does_not_answer_exits_with_1(tmp_path):
    line = ["crawl", "http://127.0.0.1:1/", "--plan", "-s", "RETRY_ENABLED=False"]
    done = crawlprio(*line, folder=tmp_path)
    assert (done.returncode, "Seeds that may be fetched: 0 of 1." in done.stdout) == (1, True)
    assert crawlprio(*line, "-s", "ROBOTSTXT_OBEY=False", folder=tmp_path).returncode == 1


def test_the_table_says_in_words_why_it_ended_and_what_pages_were_worth(tmp_path):
    with Site(WEB) as site:
        line = ["crawl", f"http://{site.address}/", *FAST, "--value", "words:nothing"]
        done = crawlprio(*line, "-s", "CLOSESPIDER_PAGECOUNT=3", folder=tmp_path)
    shown = " ".join(part.strip(" │") for part in done.stdout.splitlines())
    assert "limit reached (CLOSESPIDER_PAGECOUNT)" in shown
    assert "value found 0.0 in all, 0.000 a page" in re.sub(r" +│? *", " ", shown)


TITLES = {
    "simulate": ["Usage", "Options", "Global Options", "Simulation"],
    "score": ["Usage", "Options", "Global Options", "Score"],
    "links": ["Usage", "Options", "Global Options"],
    "replay": ["Usage", "Options", "Replay", "Global Options"],
}


def command(name):
    made = command_of(name)
    assert isinstance(made, ScrapyCommand)
    made.settings = Settings(made.default_settings)
    return made


def help_of(name):
    """Return what `scrapy NAME --help` prints, with the parser built as in Scrapy."""
    made = command(name)
    parser = argparse.ArgumentParser(
        prog="scrapy",
        formatter_class=ScrapyHelpFormatter,
        usage=f"scrapy {name} {made.syntax()}",
        conflict_handler="resolve",
        description=made.long_desc(),
    )
    made.add_options(parser)
    return parser.format_help()


@pytest.mark.parametrize("name", TITLES)
def test_no_line_of_help_becomes_a_title_at_any_width(name, monkeypatch):
    for width in range(60, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = help_of(name).splitlines()
        titles = [above for above, line in pairwise(lines) if _rules(line)]
        assert titles == TITLES[name]


def _rules(line):
    return len(line) > 2 and set(line) in ({"="}, {"-"})


@pytest.mark.parametrize("name", ["simulate", "score"])
def test_hyphenated_names_are_not_broken(name, monkeypatch):
    for width in range(60, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        assert [line for line in help_of(name).splitlines() if line.endswith("-")] == [
            line for line in help_of(name).splitlines() if line and set(line) == {"-"}
        ]


@pytest.mark.parametrize("name", TITLES)
def test_the_list_of_commands_has_one_line_each_in_80_columns(name):
    assert len(f"  {name:<13} {command(name).short_desc()}") <= 80


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_nobody_reads_ends_a_command_without_a_traceback(unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "crawlprio", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=60,
        )
    assert (ended.returncode, ended.stderr) == (1, b"")
