"""Runs `crawlprio` as `python -m crawlprio`, in the environment of that Python."""

from crawlprio.commands.cli import main

if __name__ == "__main__":
    main()
