"""Signed requests: a robot proves who it is (Web Bot Auth)."""

import re

from crawlprio.settings_table.setting_types import FileName, Section, Setting, Text

SECTION = Section(
    "Politeness",
    Setting(
        "CRAWLPRIO_SIGNING_KEY",
        FileName(none="no signatures"),
        None,
        "PEM file of an Ed25519 private key with which each request is signed "
        "([signed requests](signing.md)).",
    ),
    Setting(
        "CRAWLPRIO_SIGNATURE_AGENT",
        Text(
            "an https URL without a path, as in https://bot.example",
            re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?").fullmatch,
            none="no signatures",
        ),
        None,
        "Where the public key is published; each signed request names it.",
    ),
)
