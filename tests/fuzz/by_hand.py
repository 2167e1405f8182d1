"""Fuzzes one target with atheris, for as long as wanted: `python tests/fuzz/by_hand.py page`.

    python tests/fuzz/by_hand.py TARGET [-max_total_time=60] [CORPUS]

What follows the target goes to libFuzzer. Not part of the tests; without atheris it only says so.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("fuzz", "kit", "")]


def main():
    """Run the fuzzer until it finds something, or its time is up."""
    try:
        import atheris
    except ImportError:
        sys.exit("atheris is not installed; nothing was fuzzed (pip install atheris).")
    package = Path(__file__).parents[2]
    compiled = [
        ".".join(file.relative_to(package).with_suffix("").parts)
        for file in package.glob("crawlprio/**/*.py")
        if "njit" in file.read_text(encoding="utf-8")
    ]
    with atheris.instrument_imports(
        include=["crawlprio", "email", "protego", "w3lib"], exclude=compiled
    ):
        from targets import TARGETS
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"Give a target: {', '.join(TARGETS)}.")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
