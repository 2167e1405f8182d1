"""A crawl store's files: private to their user, one writer under any name, never renamed in use."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, contextmanager, suppress

import pytest
from crawls import ADDON, Site, page, run_spider
from spiders import Follower
from stores import letters, query, visit

from crawlprio.errors import StoreError
from crawlprio.store import Store, StoreInUse, keep_existing, make_private_folder
from crawlprio.store.transactions import Checkpoints

with suppress(ImportError):  # Windows has none.
    import fcntl

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs leases")


def make_store(path, n_visits=1):
    with Store.create(path) as store:
        for _ in range(n_visits):
            store.record(visit(0), letters(2))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def another(path, code):
    """Another process that has run `code`, with the store as `path`, and continues when told."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import sqlite3, sys\n"
            f"path = {str(path)!r}\n{code}\nprint('ready', flush=True)\nsys.stdin.readline()\n",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


WRITES = (
    "from crawlprio.store import Store\n"
    "from crawlprio.graph.pages import PageTable\n"
    "store = Store.open(path)"
)


class TestModes:
    @posix
    @pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
    def test_all_files_of_a_store_are_private_to_their_user(self, path, mask):
        with umask(mask), Store.create(path) as store:
            store.record(visit(0), letters(2))
            found = {file.name: mode(file) for file in path.parent.iterdir()}
        assert found == dict.fromkeys(
            ["crawl.sqlite", "crawl.sqlite-wal", "crawl.sqlite-shm", "crawl.sqlite-lock"], 0o600
        )

    @posix
    def test_a_store_that_its_user_shared_stays_shared(self, path):
        make_store(path)
        path.chmod(0o640)
        with Store.open(path) as store:
            store.record(visit(0), letters(2))
            assert mode(path.with_name("crawl.sqlite-wal")) == 0o640
        assert mode(path) == 0o640

    @posix
    @pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
    def test_a_new_job_folder_is_private_and_an_old_one_keeps_its_mode(self, tmp_path, mask):
        old = tmp_path / "jobs"
        old.mkdir()
        old.chmod(0o755)
        with umask(mask):
            make_private_folder(old / "job")
            make_private_folder(old)
        assert (mode(old), mode(old / "job")) == (0o755, 0o700)
        make_private_folder(tmp_path / "a" / "b")
        assert mode(tmp_path / "a" / "b") == 0o700

    @posix
    def test_a_crawl_creates_its_job_folder_before_scrapy_does(self, tmp_path):
        job = tmp_path / "jobs" / "job"
        with umask(0o022), Site({"/": page()}) as site:
            run_spider(Follower, {**ADDON, "JOBDIR": str(job), "CRAWLPRIO_STORE": "s"}, site=site)
        assert (mode(job), mode(job / "s")) == (0o700, 0o600)

    def test_a_job_folder_that_is_a_file_is_named(self, path):
        path.touch()
        with pytest.raises(StoreError, match=r"crawl\.sqlite: a file has this name"):
            make_private_folder(path)
        with pytest.raises(StoreError, match=r"b cannot be created: Not a directory; name another"):
            make_private_folder(path / "a" / "b")


class TestOneWriter:
    @posix
    def test_a_store_with_hard_links_can_be_read_but_not_written(self, path):
        make_store(path)
        other = path.with_name("other.sqlite")
        other.hardlink_to(path)
        for name in (path, other):
            with pytest.raises(StoreError, match=r"sqlite: this file has 2 names \(hard links\)"):
                Store.open(name)
            with Store.open(name, readonly=True) as store:
                assert store.n_visits == 1
        other.unlink()
        with Store.open(path) as store:
            assert store.record(visit(0), letters(2)) == 2
        assert os.listdir(path.parent) == ["crawl.sqlite"]

    @posix
    def test_a_hard_link_made_during_a_crawl_lets_no_second_writer_in(self, path):
        with Store.create(path) as store:
            store.record(visit(0), letters(2))
            other = path.with_name("other.sqlite")
            other.hardlink_to(path)
            with pytest.raises(StoreError, match="2 names"):
                Store.open(other)
            assert store.record(visit(1), letters(2)) == 2

    @posix
    def test_a_store_renamed_during_a_crawl_has_one_writer_in_any_process(self, path):
        make_store(path)
        other = path.with_name("other.sqlite")
        with another(path, WRITES):
            path.rename(other)
            with pytest.raises(StoreInUse, match=r"other\.sqlite: another process is writing"):
                Store.open(other)
        with Store.open(other):
            other.rename(path)
            with pytest.raises(StoreInUse, match=f"process {os.getpid()} "):
                Store.open(path)
        Store.open(path).close()

    @posix
    def test_a_reader_in_the_same_process_does_not_keep_a_closed_writers_lock(self, path):
        make_store(path)
        with Store.open(path, readonly=True) as reader:
            with Store.open(path) as store:
                store.record(visit(0), letters(2))
            with another(path, WRITES):
                assert reader.get_meta("schema_version") == "3"
                with pytest.raises(StoreInUse):
                    Store.open(path)

    @posix
    def test_the_lock_holds_through_commits_checkpoints_and_readers(self, path):
        """POSIX locks are released with any descriptor of the file that the process closes."""
        with Store.create(path) as store:
            for n in range(50):
                store.record(visit(0, title=f"{n}" * 9000), letters(2))
                with Store.open(path, readonly=True) as reader:
                    assert reader.n_visits == n + 1
                assert query(path, "PRAGMA wal_checkpoint(PASSIVE)") != []
            other = path.with_name("other.sqlite")
            path.rename(other)
            opens = (
                "from crawlprio.store import Store, StoreInUse\n"
                "try: Store.open(path)\n"
                "except StoreInUse as error: print('in use')\n"
            )
            args = [sys.executable, "-c", f"path = {str(other)!r}\n{opens}"]
            printed = subprocess.run(args, capture_output=True, text=True, check=True).stdout
            assert printed == "in use\n"


class TestCleanEnd:
    def test_a_read_only_program_does_not_keep_visits_out_of_the_file(self, path):
        """SQLite itself leaves them in the log, which `cp` misses."""
        reads = (
            "db = sqlite3.connect(f'file:{path}?mode=ro', uri=True)\n"
            "assert db.execute('SELECT count(*) FROM visits').fetchone() == (1,)"
        )
        make_store(path)
        with another(path, reads):
            with Store.open(path) as store:
                store.record(visit(1), letters(2))
            assert path.with_name("crawl.sqlite-wal").stat().st_size == 0
            alone = path.with_name("copy.sqlite")
            alone.write_bytes(path.read_bytes())
        with Store.open(alone, readonly=True) as store:
            assert store.n_visits == 2

    def test_what_a_reading_program_left_behind_goes_with_our_next_reader(self, path):
        make_store(path)
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            db.execute("SELECT count(*) FROM visits").fetchone()
        assert len(os.listdir(path.parent)) == 3
        Store.open(path, readonly=True).close()
        assert os.listdir(path.parent) == ["crawl.sqlite"]

    def test_a_closed_store_whose_name_was_taken_by_another_is_not_read_by_mistake(self, path):
        pages = letters(3)
        with Store.create(path) as store:
            store.record_pages(pages)
        assert store.read_urls([2]) == [("http://site2.example/2", None)]
        keep_existing(path)
        make_store(path)
        with pytest.raises(StoreError, match="was moved after the crawl"):
            store.read_urls([1])


class TestLog:
    def test_a_few_large_visits_do_not_make_a_large_log(self, path):
        """Each has a megabyte, like 500 links with long URLs out of scope."""
        outside = [(f"http://other.example/{n}{'x' * 2000}", "") for n in range(500)]
        pages, sizes = letters(1), []
        with Store.create(path) as store:
            checkpoints = store._checkpoints = Checkpoints(path, store._db, log_bytes=2**22)
            for _ in range(60):
                store.record(visit(0, outside=outside), pages)
                if checkpoints._thread is not None:
                    checkpoints._thread.join()
                sizes.append(path.with_name("crawl.sqlite-wal").stat().st_size)
            assert store.n_visits == len(list(store.visits(history=True)))
        assert max(sizes) < 12 * 2**20
        assert path.stat().st_size > 60_000_000

    def test_a_reader_that_holds_the_log_does_not_cause_a_checkpoint_at_each_commit(self, path):
        pages, n_threads = letters(1), 0
        with Store.create(path) as store, Store.open(path, readonly=True) as reader:
            checkpoints = store._checkpoints = Checkpoints(path, store._db, log_bytes=2**18)
            with reader.snapshot():
                reader.seeds()
                for _ in range(200):
                    store.record(visit(0, title="x" * 5000), pages)
                    if checkpoints._thread is not None:
                        n_threads += 1
                        checkpoints._thread.join()
        assert 1 <= n_threads <= 200 * 3 * 5000 / 2**18


QUERIED = "db.execute('SELECT count(*) FROM visits').fetchone()"
USERS = {
    "a connection that has read": (f"db = sqlite3.connect(path); {QUERIED}", False),
    "a connection that only reads": (
        f"db = sqlite3.connect(f'file:{{path}}?mode=ro', uri=True); {QUERIED}",
        False,
    ),
    "a reading store": (
        "from crawlprio.store import Store; store = Store.open(path, readonly=True)",
        False,
    ),
    "a connection that has not read yet": ("db = sqlite3.connect(path)", True),
    "a connection without locks": (
        f"db = sqlite3.connect(f'file:{{path}}?immutable=1', uri=True); {QUERIED}",
        True,
    ),
    "an open file": ("file = open(path, 'rb')", True),
    "a mapped file": (
        "import mmap; file = open(path, 'rb')\n"
        "data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ); file.close()",
        True,
    ),
}


class TestRenaming:
    @posix
    @pytest.mark.parametrize(
        "code",
        [
            pytest.param(code, marks=linux if needs_lease else [], id=name)
            for name, (code, needs_lease) in USERS.items()
        ],
    )
    def test_a_store_that_another_program_has_open_keeps_its_name(self, path, code):
        make_store(path)
        with another(path, code):
            with pytest.raises(
                StoreInUse, match=r"crawl\.sqlite: another program has this file open; close it"
            ):
                keep_existing(path)
            with Store.create_numbered(path) as store:
                assert store.path.name == "crawl.1.sqlite"
        assert query(path, "SELECT count(*) FROM visits") == [(1,)]
        assert keep_existing(path) == path.with_name("crawl.2.sqlite")

    @posix
    @pytest.mark.parametrize(
        "code", [pytest.param(code, id=name) for name, (code, needs) in USERS.items() if not needs]
    )
    def test_so_does_one_that_has_been_read_on_systems_without_leases(
        self, path, code, monkeypatch
    ):
        monkeypatch.delattr(fcntl, "F_SETLEASE", raising=False)
        make_store(path)
        with another(path, code), pytest.raises(StoreInUse, match="another program has this file"):
            keep_existing(path)
        with Store.open(path, readonly=True), pytest.raises(StoreInUse):
            keep_existing(path)
        assert keep_existing(path) == path.with_name("crawl.1.sqlite")

    @posix
    def test_so_does_one_that_this_process_has_open(self, path):
        make_store(path)
        with (
            Store.open(path, readonly=True) as store,
            pytest.raises(StoreInUse, match="has this file open"),
        ):
            keep_existing(path)
        assert store.n_visits == 1
        assert keep_existing(path) == path.with_name("crawl.1.sqlite")

    @posix
    def test_what_a_killed_crawl_left_is_one_file_under_the_new_name(self, path):
        code = f"{WRITES}\npages = store.load_pages()\nimport os\n"
        make_store(path)
        code += (
            "from crawlprio.graph.pages import Visit\nimport numpy as np\n"
            "store.record(Visit(1, np.empty(0, np.int32)), pages)\n"
            "print('ready', flush=True)\nos.kill(os.getpid(), 9)"
        )
        with another(path, code) as process:
            process.wait(60)
        assert path.with_name("crawl.sqlite-wal").stat().st_size > 0
        assert keep_existing(path) == path.with_name("crawl.1.sqlite")
        assert os.listdir(path.parent) == ["crawl.1.sqlite"]
        assert query(path.with_name("crawl.1.sqlite"), "SELECT page FROM visits") == [(0,), (1,)]
