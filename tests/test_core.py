"""The core stands without Scrapy."""

from __future__ import annotations

import subprocess
import sys

CORE = [
    *("errors", "items", "pages", "topic", "orderings", "ranking", "frontier", "store"),
    *("frontier.protocol", "frontier.site_clock", "web.html", "web.scope", "web.budgets"),
    *("web.addresses", "web.traps", "web.urls", "web.pieces", "store.hashtable"),
    *("linkgraph", "importance", "simulator", "evaluation", "evaluation.plots"),
    *("evaluation.figures", "importance.scores", "linkgraph.synthetic"),
    *("linkgraph.convert", "importance.score_report", "simulator.run_report"),
]

BLOCKED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("scrapy", "twisted", "redis"):
            raise ImportError(f"the core imports {name}")

sys.meta_path.insert(0, Refuse())
import importlib
for name in sys.argv[1:]:
    importlib.import_module(f"crawlprio.{name}")
from crawlprio import Ordering, Store, Visit, make_ordering
print(make_ordering("opic").__class__.__name__)
"""


def test_the_core_is_imported_and_used_without_scrapy_or_twisted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *CORE], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("Opic", "")
