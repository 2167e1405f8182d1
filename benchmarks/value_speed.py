"""What values and kept texts cost a crawl of real pages behind nginx; for docs/value.md.

    python benchmarks/value_speed.py [--folder FOLDER] [--pages 2000] [--rounds 3] [--profile LABEL]

The pages are those of `real_pages.py`. A classifier is trained on fifty pages of the first site
against fifty of the others. The same crawl is then run in turn without values, with those of
`words`, with those of the classifier, with these and the texts kept, with these under the ordering
`value`, and as `crawlprio crawl --topic` crawls: with those of `words` under `value`, behind the
hot queue, with texts. All but the last two fetch the same pages, in order of discovery. With
`--profile LABEL` one of the crawls is sampled instead (see `profiled.py`).

Figures are processor time from the first response to the last: of a page, and more than without
values. What it does not show: slow models of one's own, which run in a thread or process.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from harness import Crawl, Figures, options, run_in_turn
from profiled import profile_apart
from real_pages import crawls, serve, sites_of

from crawlprio.plugins.value.classifier import train
from crawlprio.plugins.value.model import Page, page_of
from crawlprio.web.html import parse_page

N_EXAMPLES = 50

TOPIC = "database, query"


def examples(folder: Path, n: int) -> list[Page]:
    """Return the texts of some pages of a site, spread over it."""
    files = sorted(folder.rglob("*.html"))
    found = []
    for file in files[:: max(len(files) // n, 1)][:n]:
        page = parse_page(file.read_bytes(), "http://a/", want_text=True, without_navigation=True)
        found.append(page_of("", page.title, page.text))
    return found


def contenders(base: Crawl, model: Path) -> list[Crawl]:
    """Return the crawls, the one without values first."""
    ordered = {**base.settings, "ORDERING": "breadth-first"}
    words = {**ordered, "CRAWLPRIO_VALUE": f"words:{TOPIC}"}
    classifier = {**ordered, "CRAWLPRIO_VALUE": f"classifier:{model}"}
    variants = {
        "without values": ordered,
        "words": words,
        "classifier": classifier,
        "classifier, texts kept": {**classifier, "CRAWLPRIO_KEEP_TEXT": True},
        "classifier, ordering value": {**classifier, "ORDERING": "value"},
        "topic": {**words, "ORDERING": "value", "TOPIC": TOPIC, "TOPIC_OPTIONS": {"distance": 0}},
    }
    return [replace(base, label=label, settings=given) for label, given in variants.items()]


def show_costs(figures: dict[str, list[Figures]]) -> None:
    """Print the cost of a page in processor time, and what it is more than in the first crawl."""
    base = next(iter(figures.values()))
    for label, runs in figures.items():
        rate = statistics.median(run.cpu_rate for run in runs)
        more = [
            1e3 / run.cpu_rate - 1e3 / bare.cpu_rate for run, bare in zip(runs, base, strict=True)
        ]
        print(
            f"{label:27} {rate:6.0f} pages/s of processor time; {statistics.median(more):+.2f} ms "
            f"a page ({min(more):+.2f} to {max(more):+.2f}); "
            f"{statistics.median(run.peak_bytes for run in runs) / 2**20:.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = options(__doc__, n_pages=2000)
    parser.add_argument("--folder", type=Path, help="holds a folder of HTML pages for each site")
    parser.add_argument("--profile", metavar="LABEL", help="'words', 'topic', ...")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sites = sites_of(given.folder, Path(temporary))
        if not sites:
            return
        roots = [*sites.values()]
        model = Path(temporary, "model.json")
        rest = [page for root in roots[1:] for page in examples(root, N_EXAMPLES // len(roots[1:]))]
        train(examples(roots[0], N_EXAMPLES), rest).write(model)
        served = {host: (root, ()) for host, root in sites.items()}
        with serve(Path(temporary, "nginx"), served, charset="") as server:
            base = crawls(server, sites, given.pages)["crawlprio"]
            crawled = contenders(base, model)
            if given.profile:
                profile_apart(next(crawl for crawl in crawled if crawl.label == given.profile))
                return
            show_costs(run_in_turn(crawled, given.rounds))


if __name__ == "__main__":
    main()
