"""The user agent of the bundled project: the robot's name, crawlprio's, and whom to write to."""

from __future__ import annotations

import re

from crawlprio import __version__
from crawlprio.errors import ConfigError
from crawlprio.settings_table.kinds import CONTACT, Text, checked

_PRODUCT = re.compile(r"[\w!#$%&'*+.^`|~-]+(/[\w!#$%&'*+.^`|~-]+)?", re.ASCII).fullmatch
_OUR_AGENT = re.compile(r"(?:(\S+) )?crawlprio/\S+ \(\+?(.*)\)").fullmatch
_NO_CONTACT = "a Scrapy crawler"


def user_agent(name: str | None, contact: str | None, earlier: str) -> str:
    """Return a user agent that names the robot, if it has a name, crawlprio and the contact.

    What is not given is taken from the user agent so far, `earlier`. A name with spaces, or a
    contact that is neither a mail address nor a URL, is a ConfigError.
    """
    if name is not None and not _PRODUCT(name):
        raise ConfigError(f"--agent is {name!r}; give a name without spaces, as in mybot/1.0.")
    if contact is not None:
        checked("--contact", Text(*CONTACT), contact)
    found = _OUR_AGENT(earlier)
    if found is not None:
        name, contact = name or found[1], contact or found[2]
    comment = contact or _NO_CONTACT
    parts = (name, f"crawlprio/{__version__}", f"({'+' * ('://' in comment)}{comment})")
    return " ".join(filter(None, parts))


def lacks_contact(agent: str) -> bool:
    """Return whether a user agent is the bundled project's, and names nobody."""
    found = _OUR_AGENT(agent)
    return found is not None and found[2] == _NO_CONTACT


def robot_of(agent: str) -> str:
    """Return what of such a user agent names a robot; the words of a contact name none."""
    return agent.partition(" (")[0]
