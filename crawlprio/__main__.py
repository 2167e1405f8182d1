"""Runs `crawlprio`, also as `python -m crawlprio`, in the environment of that Python."""

import sys


def main() -> None:
    """Run a command; exit with its status, and without a traceback while modules are imported."""
    try:
        from crawlprio.commands import cli
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
