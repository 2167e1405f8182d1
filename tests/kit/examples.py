"""How many examples a property test tries: a quarter in `make test`, all in `make test-long`."""

import os

IS_LONG = bool(os.environ.get("CRAWLPRIO_LONG"))


def examples(n):
    """Return the number of examples of this run, where `n` are tried in a long one."""
    return n if IS_LONG else max(n // 4, 10)
