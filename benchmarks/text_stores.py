"""Real webs with the texts of their pages, as crawl stores; run by hand, or by `sources.py`.

    python benchmarks/text_stores.py FOLDER [--web NAME]...

Writes `FOLDER/texts/NAME.sqlite` unless it is there. Repositories and packages are fetched into
FOLDER, where `archives.py` and `webs.py` keep them too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from value import web_of
from value_webs import build


def main() -> None:
    """Build the stores that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--web", action="append", default=[])
    given = parser.parse_args()
    texts = given.folder / "texts"
    texts.mkdir(exist_ok=True)
    for name in given.web:
        path, part = texts / f"{name}.sqlite", texts / f"{name}.part"
        if not path.exists():
            part.unlink(missing_ok=True)
            build(part, web_of(name, given.folder, None))
            part.rename(path)  # a build that was interrupted leaves no store


if __name__ == "__main__":
    main()
