"""What not every crawl needs: plugins, and the one table of what they add, by name.

Each of our own plugins is a folder here. It uses the other rooms of the package and no other
plugin, and no other room names it: what a plugin adds is found by name in this table, and imported
when it is first asked for. A plugin's folder can be deleted; what it added is then refused in one
sentence.

An installed distribution adds rows to the same table by an entry point of the group
`crawlprio.plugins`, which names a mapping like `ADDED`, with whole import paths. It should be cheap
to import. Only where packages are installed are entry points looked for, never in a working folder.
"""

from __future__ import annotations

import logging
import site
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import Any, TypeVar

from crawlprio.errors import ConfigError

ADDED: dict[str, dict[str, str]] = {
    "orderings": {
        "batched": ".papers.rare_orderings.Batched",
        "combined": ".papers.rare_orderings.Combined",
        "fica": ".papers.rare_orderings.Fica",
        "gain": ".update.gain.Gain",
    },
    "orderings by value": {
        "value": ".value.orderings.Value",
        "value-and-importance": ".value.orderings.ValueAndImportance",
        "best-first": ".value.orderings.BestFirst",
        "parent-quality": ".value.orderings.ParentQuality",
    },
    "importances": {
        "weighted-pagerank": ".papers.rare_importances.WeightedPageRank",
        "similarity": ".papers.rare_importances.Similarity",
        "term-count": ".papers.rare_importances.TermCount",
        "harmonic": ".papers.rare_importances.Harmonic",
        "authorities": ".papers.rare_importances.Authorities",
        "hubs": ".papers.rare_importances.Hubs",
    },
    "demotions": {
        "CRAWLPRIO_NOVELTY": ".value.novelty.Novelty",
    },
    "value models": {
        "CRAWLPRIO_VALUE": ".value.models.make_model",
    },
    "functions": {
        "texts": ".value.kept_texts.kept_texts",
        "value": ".value.value_runs.lab_of",
        "collect": ".shared.collect.collect",
    },
    "formats": {
        ".graph": ".papers.webgraph.read_webgraph",
    },
    "commands": {
        "texts": ".value.value_command.TextsCommand",
        "value": ".value.value_command.ValueCommand",
        "frontier": ".shared.frontier_command.Command",
        "update": ".update.update_command.UpdateCommand",
        "changes": ".update.update_command.ChangesCommand",
    },
    "parts": {
        "CRAWLPRIO_WARC": ".archive.archiver.Archiver",
        "CRAWLPRIO_REQUISITES": ".archive.requisite_fetches.Requisites",
        "CRAWLPRIO_RENDER": ".render.rendering.Renderer",
        "CRAWLPRIO_VALUE": ".value.valuing.Valuer",
        "CRAWLPRIO_KEEP_TEXT": ".value.valuing.Languages",
        "CRAWLPRIO_NOVELTY": ".value.valuing.Fingerprints",
        "CRAWLPRIO_BUFFER": ".papers.kept_pages.KeptPages",
        "CRAWLPRIO_MONITOR": ".watch.monitor.Monitor",
        "CRAWLPRIO_UPDATE": ".update.updating.Updates",
        "CRAWLPRIO_SIGNING_KEY": ".signing.signatures.Signer",
        "CRAWLPRIO_SIGNATURE_AGENT": ".signing.signatures.Signer",
    },
    "parts of workers": {
        "CRAWLPRIO_WARC": ".archive.archiver.WorkerArchiver",
    },
    "add-ons": {
        "shared": ".shared.process_roles.take_role",
    },
    "before the event loop": {
        "shared": ".shared.process_roles.fork_workers",
    },
    "schedulers": {
        "RedisScheduler": ".shared.redis_worker.RedisWorkerScheduler",
    },
    "sections": {
        "CRAWLPRIO_VALUE": ".value.ORDER",
        "CRAWLPRIO_NOVELTY": ".value.ORDER",
        "CRAWLPRIO_KEEP_TEXT": ".value.OUTPUT",
        "CRAWLPRIO_SIGNING_KEY": ".signing.SECTION",
        "CRAWLPRIO_SIGNATURE_AGENT": ".signing.SECTION",
        "CRAWLPRIO_UPDATE": ".update.SECTION",
        "CRAWLPRIO_BUFFER": ".papers.SECTION",
        "CRAWLPRIO_WARC": ".archive.WARC",
        "CRAWLPRIO_REQUISITES": ".archive.REQUISITES",
        "CRAWLPRIO_RENDER": ".render.SECTION",
        "CRAWLPRIO_BROWSER": ".render.SECTION",
        "CRAWLPRIO_MONITOR": ".watch.SECTION",
        "CRAWLPRIO_FRONTIER": ".shared.SECTION",
        "CRAWLPRIO_WORKERS": ".shared.SECTION",
    },
    "report sections": {
        "updates": ".update.changes.report_section",
    },
}
"""What plugins add, by kind and by the name that users give it: an import path, relative to this
package for our own. A part of a crawl has the name of the setting that turns it on, and a section
of settings of our own those of its settings that other rooms read or set."""

GROUP = "crawlprio.plugins"

logger = logging.getLogger("crawlprio")


def _add_installed() -> None:
    """Add the rows of installed distributions to `ADDED`; one that cannot be used is a warning."""
    places = [*site.getsitepackages(), site.getusersitepackages()]
    for installed in distributions(path=[place for place in places if place in sys.path]):
        if GROUP not in (installed.read_text("entry_points.txt") or ""):
            continue
        for point in installed.entry_points.select(group=GROUP):
            try:
                _add(point.load())
            except Exception as error:
                logger.warning(
                    "The plugin %r of %s cannot be used: %s",
                    *(point.name, installed.metadata["Name"], _reason(error)),
                )


def _add(rows: Mapping[str, Mapping[str, str]]) -> None:
    """Add the rows of one plugin to `ADDED`; raise an error, and add none, if any is invalid."""
    for kind, added in rows.items():
        if kind not in ADDED:
            raise ConfigError(f"it adds {kind!r}; plugins may add {', '.join(ADDED)}.")
        for name, path in added.items():
            if "." not in path.strip("."):
                raise ConfigError(f"{name!r} is {path!r}; give an import path.")
            if name in ADDED[kind]:
                raise ConfigError(f"another plugin has added {name!r} to {kind!r}.")
    for kind, added in rows.items():
        ADDED[kind] |= added


def _reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


_add_installed()

T = TypeVar("T")


def load(kind: str, name: str) -> Any:
    """Import what a plugin adds under this name; raise ConfigError if its folder is not there."""
    module, _, attribute = ADDED[kind][name].rpartition(".")
    if module.startswith("."):
        require_plugin(module.split(".")[1], repr(name))
        return getattr(import_module(module, __name__), attribute)
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:
        raise ConfigError(
            f"{name!r} is of a plugin that cannot be used: {_reason(error)}"
        ) from error


def load_all(kind: str) -> list[Any]:
    """Import all that plugins which are there add of a kind; a failed import is a warning."""
    lost = missing(kind)
    loaded = []
    for name in ADDED[kind]:
        try:
            loaded += [] if name in lost else [load(kind, name)]
        except ConfigError as error:
            logger.warning("%s", error)
    return loaded


def require_plugin(plugin: str, what: str) -> None:
    """Raise ConfigError, with `what` needs the plugin as its subject, if its folder is missing."""
    if find_spec(f"{__name__}.{plugin}") is None:
        raise ConfigError(
            f"{what} needs {__name__}.{plugin}, which this copy of crawlprio lacks; install it "
            "whole."
        )


def missing(kind: str) -> dict[str, str]:
    """Return the names that our plugins whose folders are missing add, and the plugin of each."""
    own = {name: path.split(".")[1] for name, path in ADDED[kind].items() if path[0] == "."}
    return {name: of for name, of in own.items() if find_spec(f"{__name__}.{of}") is None}


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
