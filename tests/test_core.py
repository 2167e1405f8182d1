"""The core stands without Scrapy."""

from __future__ import annotations

import subprocess
import sys

CORE = [
    *("errors", "items", "pages", "topic", "extraction", "scope", "orderings", "frontier"),
    *("linkgraph", "importance", "simulator", "evaluation", "evaluation.plots", "store"),
    *("evaluation.figures", "importance.scores", "importance.reporting", "linkgraph.synthetic"),
    *("linkgraph.convert", "addresses", "budgets", "hashtable", "pieces", "traps"),
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
