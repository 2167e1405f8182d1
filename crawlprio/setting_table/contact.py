"""The kinds of the settings that say who crawls, and whom owners of sites can reach."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from crawlprio.setting_table.kinds import Kind, NotAllowedError

_CONTACT = re.compile(r"https?://[^\s()<>\"\\]+|[^\s()<>@,;:\"\\]+@[^\s()<>@,;:\"\\]+").fullmatch


@dataclass(frozen=True)
class Contact(Kind):
    """A mail address or a URL by which owners of sites reach whoever crawls them."""

    @property
    def bounds(self) -> str:
        return (
            "a mail address or a URL (http:// or https://) that tells owners of sites who crawls "
            "them"
        )

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not _CONTACT(value):
            raise NotAllowedError
        return value


_ORIGIN = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?").fullmatch


@dataclass(frozen=True)
class HttpsOrigin(Kind):
    """An https URL without a path."""

    says = "an https URL without a path, as in https://bot.example"

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not _ORIGIN(value):
            raise NotAllowedError
        return value
