"""Runs `crawlprio`, also as `python -m crawlprio`, in the environment of that Python."""

import os
import sys


def main() -> None:
    """Run a command; exit with its status, and without a traceback while modules are imported."""
    try:
        from crawlprio.commands import cli

        cli.main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # nobody reads the output, as after `crawlprio --help | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
