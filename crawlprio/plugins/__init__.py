"""What not every crawl needs: plugins, and the one table of what they add, by name.

Each plugin is a folder here. It uses the other rooms of the package and no other plugin, and no
other room names it: what a plugin adds is found by name in this table, and imported when it is
first asked for. A plugin's folder can be deleted; what it added is then refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from crawlprio.errors import ConfigError

ADDED: dict[str, dict[str, str]] = {
    "orderings": {
        "batched": "papers.rare_orderings.Batched",
        "combined": "papers.rare_orderings.Combined",
        "fica": "papers.rare_orderings.Fica",
    },
    "orderings by value": {
        "value": "value.orderings.Value",
        "value-and-importance": "value.orderings.ValueAndImportance",
        "best-first": "value.orderings.BestFirst",
        "parent-quality": "value.orderings.ParentQuality",
    },
    "importances": {
        "weighted-pagerank": "papers.rare_importances.WeightedPageRank",
        "similarity": "papers.rare_importances.Similarity",
        "term-count": "papers.rare_importances.TermCount",
        "harmonic": "papers.rare_importances.Harmonic",
        "authorities": "papers.rare_importances.Authorities",
        "hubs": "papers.rare_importances.Hubs",
    },
    "settings": {
        "CRAWLPRIO_NOVELTY": "value.fingerprints.fingerprints",
        "CRAWLPRIO_VALUE": "value.models.make_model",
    },
    "judges of repeats": {
        "CRAWLPRIO_NOVELTY": "value.novelty.Novelty",
    },
    "formats": {
        ".graph": "papers.webgraph.read_webgraph",
    },
    "tables": {
        "texts": "value.kept_texts.kept_texts",
    },
    "judges": {
        "value": "value.value_runs.lab_of",
    },
    "commands": {
        "texts": "value.value_command.TextsCommand",
        "manners": "manners.manners_command.Command",
        "value": "value.value_command.ValueCommand",
        "frontier": "shared.frontier_command.Command",
    },
    "parts": {
        "CRAWLPRIO_WARC": "archive.archiver.Archiver",
        "CRAWLPRIO_REQUISITES": "archive.requisite_fetches.Requisites",
        "CRAWLPRIO_VALUE": "value.valuing.Valuer",
        "CRAWLPRIO_KEEP_TEXT": "value.valuing.Languages",
        "CRAWLPRIO_BUFFER": "papers.kept_pages.KeptPages",
        "CRAWLPRIO_MONITOR": "watch.monitor.Monitor",
    },
    "archivers of hands": {
        "CRAWLPRIO_WARC": "archive.archiver.HandArchiver",
    },
    "exports": {
        "collect": "shared.collect.collect",
    },
    "schedulers": {
        "RedisScheduler": "shared.redis_hand.RedisHandScheduler",
    },
    "signers": {
        "CRAWLPRIO_SIGNING_KEY": "manners.signatures.Signer",
    },
}
"""What plugins add, by kind and by the name that users give it, which for a part of a crawl is the
setting that turns it on: a path in this package."""

SETTINGS = (
    ("CRAWLPRIO_BUFFER", "", "papers"),
    ("CRAWLPRIO_FRONTIER", "redis", "shared"),
    ("CRAWLPRIO_KEEP_TEXT", "", "value"),
    ("CRAWLPRIO_NOVELTY", "", "value"),
    ("CRAWLPRIO_REQUISITES", "", "archive"),
    ("CRAWLPRIO_SIGNING_KEY", "", "manners"),
    ("CRAWLPRIO_VALUE", "", "value"),
    ("CRAWLPRIO_WARC", "", "archive"),
    ("CRAWLPRIO_WORKERS", "", "shared"),
)
"""A setting, what its value begins with, and the plugin that it then needs."""

T = TypeVar("T")


def load(kind: str, name: str) -> Any:
    """Import what a plugin adds under this name; raise ConfigError if its folder is not there."""
    module, _, attribute = ADDED[kind][name].rpartition(".")
    require_plugin(module.partition(".")[0], repr(name))
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def require_plugin(plugin: str, what: str) -> None:
    """Raise ConfigError, with `what` needs the plugin as its subject, if its folder is missing."""
    if not has_plugin(plugin):
        raise ConfigError(
            f"{what} needs {__name__}.{plugin}, which this copy of crawlprio lacks; install it "
            "whole."
        )


def has_plugin(plugin: str) -> bool:
    """Return whether the folder of a plugin is there."""
    return find_spec(f"{__name__}.{plugin}") is not None


class ByName(Mapping[str, T]):
    """Classes by name: a room's own, then those of some kinds that plugins add.

    Those of plugins are imported when they are first asked for.
    """

    def __init__(self, own: Mapping[str, T], *kinds: str) -> None:
        self.own = dict(own)
        self._kind = {name: kind for kind in kinds for name in ADDED[kind]}

    def __getitem__(self, name: str) -> T:
        found = self.own.get(name)
        return load(self._kind[name], name) if found is None else found

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._kind

    def __iter__(self) -> Iterator[str]:
        return iter([*self.own, *self._kind])

    def __len__(self) -> int:
        return len(self.own) + len(self._kind)

    def class_names(self) -> dict[str, str]:
        """Return the name of each class by the name that users give it, importing none."""
        own = {name: cls.__name__ for name, cls in self.own.items()}  # type: ignore[attr-defined]
        added = {name: ADDED[kind][name].rpartition(".")[2] for name, kind in self._kind.items()}
        return own | added
