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

_PRELUDES = {
    "open": (),
    "elect": (),
    "add": (*_COMMON, "learning"),
    "seeds": (*_COMMON, "learning"),
    "observe": (*_COMMON, "learning"),
    "load": (*_COMMON, "learning"),
    "deliver": (*_COMMON, "learning"),
}
"""What comes before a script; `_COMMON` where nothing else is said."""

SCRIPTS = (
    *("open", "add", "seeds", "observe", "lease", "end_lease", "clock", "beat"),
    *("elect", "rekey", "show", "load", "load_request", "waiting"),
    *("deliver", "delivered", "undelivered"),
)
"""The scripts, by the names of their files."""


class Script(NamedTuple):
    """A script as the server knows it: its text, and the hash by which it is called."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return a script, with the files that it stands on before it."""
    folder = files("crawlprio.redis") / "lua"
    parts = (*_PRELUDES.get(name, _COMMON), name)
    texts = [(folder / f"{part}.lua").read_text(encoding="utf-8") for part in parts]
    # Each part is a function inside the one before it: within one long function Lua looks for each
    # outer variable of a function among all others.
    text = "return (function()\n".join(texts) + "end)()\n" * (len(texts) - 1)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
