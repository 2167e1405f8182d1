"""A plugin of another distribution, that of docs/plugins.md, is built, installed and takes part."""

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest
from crawls import ROOT, Answer, Site
from forked import run_to_end

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "plugins.md").read_text("utf-8")
FILE = re.compile(r"^`([\w./]+)`.*?\n```\w+\n(.*?)^```", re.M | re.S)
CANONICAL = {f"/{n}": f"/page-{n}" for n in range(0, 12, 2)}


def html(n):
    canonical = CANONICAL.get(f"/{n}")
    head = f'<link rel="canonical" href="{canonical}">' if canonical else ""
    links = "".join(f'<a href="/{(n + k) % 12}">{k}</a>' for k in (1, 2))
    return f"<html><head><title>{n}</title>{head}</head><body>{links}</body></html>"


@pytest.fixture(scope="module")
def site():
    pages = {f"/{n}": Answer(html(n)) for n in range(12)}
    with Site({**pages, "/": Answer(html(0).replace("page-0", "page-root"))}) as served:
        yield served


class Environment:
    """A virtual environment beside that of the tests, whose packages it has too."""

    def __init__(self, folder):
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        outer = {sysconfig.get_path("purelib"), str(ROOT)}
        (self.packages / "outer.pth").write_text("".join(f"{path}\n" for path in outer))

    def install(self, wheel):
        """Do what an installer does with a wheel that has no scripts."""
        with zipfile.ZipFile(wheel) as unpacked:
            unpacked.extractall(self.packages)

    def crawlprio(self, *words, cwd):
        return run_to_end([self.python, "-P", "-m", "crawlprio", *words], cwd)


def built(folder, **others):
    """Write the files of the page, some of them otherwise, and return the wheel of them."""
    files = dict(FILE.findall(PAGE)) | others
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(line, cwd=folder, check=True, capture_output=True)
    (wheel,) = folder.glob("dist/*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    made = Environment(folder / "venv")
    made.install(built(folder / "source"))
    return made


def expected(site):
    start = f"http://{site.address}"
    named = [f"{start}{page} {start}{url}" for page, url in CANONICAL.items()]
    return sorted([*named, f"{start}/ {start}/page-root"])


def test_the_page_has_all_files_of_the_plugin():
    assert len(FILE.findall(PAGE)) == 5


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_its_setting_table_command_and_row_are_there(environment, site, tmp_path, workers):
    line = ["crawl", f"http://{site.address}/", "--folder", "job", "--delay", "0"]
    crawl = environment.crawlprio(*line, *workers, "--canonical-urls", cwd=tmp_path)
    assert crawl.returncode == 0, crawl.stderr
    assert re.search(r"canonical URLs\W+7\b", crawl.stdout), crawl.stdout
    listed = environment.crawlprio("canonical", "job/crawl.sqlite", cwd=tmp_path)
    assert sorted(listed.stdout.splitlines()) == expected(site), listed.stderr
    assert "canonical" in environment.crawlprio("--help", cwd=tmp_path).stdout


def test_what_it_stored_is_copied_as_stores_are_joined(environment, site, tmp_path):
    for name in ("one", "two"):
        line = ["crawl", f"http://{site.address}/", "--folder", name, "--delay", "0"]
        crawl = environment.crawlprio(*line, "-s", "CANONICAL_URLS=1", cwd=tmp_path)
        assert crawl.returncode == 0, crawl.stderr
    stores = ["one/crawl.sqlite", "two/crawl.sqlite", "both.sqlite"]
    joined = environment.crawlprio("links", "collect", *stores, cwd=tmp_path)
    assert joined.returncode == 0, joined.stderr
    listed = environment.crawlprio("canonical", "both.sqlite", cwd=tmp_path)
    assert set(listed.stdout.splitlines()) == set(expected(site)), listed.stderr


def test_its_setting_is_checked_and_without_it_nothing_is_recorded(environment, site, tmp_path):
    line = ["crawl", f"http://{site.address}/", "--folder", "job", "--delay", "0"]
    refused = environment.crawlprio(*line, "-s", "CANONICAL_URLS=maybe", cwd=tmp_path)
    assert refused.returncode == 2
    assert "CANONICAL_URLS is 'maybe'" in refused.stderr
    assert environment.crawlprio(*line, cwd=tmp_path).returncode == 0
    listed = environment.crawlprio("canonical", "job/crawl.sqlite", cwd=tmp_path)
    assert (listed.returncode, listed.stderr.count("\n")) == (2, 1)
    assert "no canonical URLs can be read" in listed.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("ADDED = {'parts': 1}", "AttributeError"),
        ("ADDED = {'part': {'A': 'a.b'}}", "it adds 'part'; plugins may add orderings, "),
        ("ADDED = {'parts': {'A': 'a'}}", "'A' is 'a'; give an import path."),
        ("ADDED = {'orderings': {'fica': 'a.b'}}", "another plugin has added 'fica'"),
        ("raise ValueError('no')", "ValueError: no"),
        ("import missing_module", "ModuleNotFoundError: No module named 'missing_module'"),
        ("ADDED = {'sections': {'A': 'missing_module.A'}}", "missing_module"),
        (
            "ADDED = {'sections': {'A': 'crawlprio.settings_table.table.DEMO'}}",
            "some exist already",
        ),
    ],
)
def test_one_that_cannot_be_used_is_left_out_with_a_warning(site, tmp_path, rows, sentence):
    made = Environment(tmp_path / "venv")
    made.install(built(tmp_path / "source", **{"crawlprio_canonical/__init__.py": rows}))
    done = made.crawlprio("simulate", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_crawl_goes_on_without_a_part_whose_section_cannot_be_imported(site, tmp_path):
    rows = {"sections": {"A": "missing_module.A"}, "parts": {"A_PART": "missing_module.B"}}
    files = {"crawlprio_canonical/__init__.py": f"ADDED = {rows}"}
    made = Environment(tmp_path / "venv")
    made.install(built(tmp_path / "source", **files))
    line = ["crawl", f"http://{site.address}/", "--folder", "job", "--delay", "0", "--pages", "2"]
    done = made.crawlprio(*line, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    asked = made.crawlprio(*line, "-s", "A_PART=1", cwd=tmp_path)
    assert (asked.returncode, "Traceback" in asked.stderr) == (2, False), asked.stderr
    assert "'A_PART' is of a plugin that cannot be used" in asked.stderr


def test_no_entry_point_of_the_working_folder_is_used(environment, site, tmp_path):
    wheel = built(tmp_path / "source", **{"crawlprio_canonical/__init__.py": "print('has run')"})
    with zipfile.ZipFile(wheel) as unpacked:
        unpacked.extractall(tmp_path / "here")
    line = [sys.executable, "-m", "crawlprio", "--help"]
    done = subprocess.run(line, cwd=tmp_path / "here", capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "has run" not in done.stdout + done.stderr
