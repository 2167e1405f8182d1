"""Classes that the user names by import path: the only code taken from the working folder."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from crawlprio.errors import ConfigError


def load_named(setting: str, path: str) -> Any:
    """Return what an import path names.

    Only while its module is imported, and only if it is not found otherwise, does the search
    include the working folder. Elsewhere `import` must never look there: somebody who stands in a
    shared folder would run what others left in it under the name of an optional package.

    The path is `module.name`, with any number of packages before it; `setting` is what names it,
    for messages.

    Raises `ConfigError` if there is no such module, or it has no such name.
    """
    module, _, name = path.rpartition(".")
    try:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):
                raise  # by the module itself, of another
            return getattr(_import_from_here(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{setting} is {path!r}, which cannot be imported ({error}); check the import path."
        ) from error


def _import_from_here(module: str) -> ModuleType:
    """Import a module of the working folder."""
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(folder)
