"""`python -m crawlprio` is the command `crawlprio`, of the environment that this Python is of."""

from crawlprio.commands.cli import main

if __name__ == "__main__":
    main()
