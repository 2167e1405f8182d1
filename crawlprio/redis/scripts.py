"""The Lua scripts of the frontier, put together from their files."""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

Client: TypeAlias = Any
"""A client of redis-py, whose annotations are of several minds about it."""

Argument: TypeAlias = str | bytes | int | float
"""What a script is called with."""

_COMMON = ("common", "texts", "queue", "leases")

_CALLS = ("lease", "end_lease", "clock", "load_request", "delivered", "undelivered")
"""Calls of a worker, by the names of their files; the script `calls` does any number of them."""

_LEARNING_CALLS = ("add", "seeds", "observe", "load", "deliver")
"""Those that stand on `learning` too."""

_PRELUDES: dict[str, tuple[str, ...]] = {"open": (), "elect": ()}
"""What comes before a script other than `calls`; `_COMMON` where nothing else is said."""

SCRIPTS = ("open", "calls", "beat", "elect", "rekey", "show", "waiting")
"""The scripts, by the names of their files."""


class Script(NamedTuple):
    """A script as the server knows it: its text, and the hash by which it is called."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return a script, with the files that it stands on before it."""
    folder = files("crawlprio.redis") / "lua"

    def read(part: str) -> str:
        return (folder / f"{part}.lua").read_text(encoding="utf-8")

    if name == "calls":
        parts = [read(part) for part in _COMMON[:-1]]
        for part, calls in (("leases", _CALLS), ("learning", _LEARNING_CALLS)):
            parts.append("".join((read(part), *(f"do\n{read(call)}end\n" for call in calls))))
    else:
        parts = [read(part) for part in _PRELUDES.get(name, _COMMON)]
    # Each part is a function inside the one before it: within one long function Lua looks for each
    # outer variable of a function among all others, and allows a function 60 of them.
    text = "return (function()\n".join((*parts, read(name))) + "end)()\n" * len(parts)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
