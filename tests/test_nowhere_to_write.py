"""A crawl under the add-on where only the temporary folder is writable, as in many containers."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import CRAWL

import crawlprio

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drops a capability of Linux")


def may_write_only_where_permitted():
    """Drop root's capability to write everywhere (CAP_DAC_OVERRIDE), from the next exec on."""
    if os.geteuid() == 0:
        pr_capbset_drop, cap_dac_override = 24, 1
        if ctypes.CDLL(None, use_errno=True).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "a capability cannot be dropped")


@pytest.fixture
def locked(tmp_path):
    """Folders that cannot be written: the package, a home and a working folder."""
    source = Path(crawlprio.__file__).parent
    leaves_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, tmp_path / "site" / "crawlprio", ignore=leaves_out)
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    (tmp_path / "temporary").mkdir()
    yield tmp_path
    for folder in folders:
        folder.chmod(0o755)


def test_a_crawl_yields_its_items_and_warns_once_that_nothing_is_recorded(locked):
    unset = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    done = subprocess.run(
        [sys.executable, "-c", CRAWL, str(locked / "site"), "plain"],
        cwd=locked / "work",
        env={
            **{name: value for name, value in os.environ.items() if name not in unset},
            "HOME": str(locked / "home"),
            "PYTHONPATH": str(locked / "site"),
            "TMPDIR": str(locked / "temporary"),
            # Scrapy records there which jobs run, and logs an error if it cannot.
            "XDG_STATE_HOME": str(locked / "temporary"),
        },
        preexec_fn=may_write_only_where_permitted,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1:] == ["finished 3"], done.stderr[-3000:]
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "crawl.sqlite" in done.stderr
    assert not list((locked / "temporary").rglob("*.nbi")), "nothing is compiled"
