"""What is imported by name: packages that crawlprio can do without, and classes that users name."""

from __future__ import annotations

import importlib
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from crawlprio.errors import ConfigError, CrawlprioError


def require(module: str, extra: str, what: str) -> None:
    """Raise ConfigError unless a module can be imported, which an extra of crawlprio installs.

    `what` needs it: the subject of the sentence.
    """
    if find_spec(module) is None:
        # pip takes the name for the installed package, wherever that came from.
        raise ConfigError(
            f"{what} needs {module}, which is not installed; run pip install 'crawlprio[{extra}]'."
        )


def imported(
    module: str, what: str, package: str = "", *, error: type[CrawlprioError] = ConfigError
) -> Any:
    """Return an optional module, which a package installs; raise an error if it does not exist.

    `what` needs it: the subject of the sentence. Modules are imported by name so that type checkers
    do not need them.
    """
    try:
        return import_module(module)
    except ImportError:
        package = package or module
        raise error(
            f"{what} needs {module}, which is not installed; run `pip install '{package}'`."
        ) from None


def load_named(setting: str, path: str) -> Any:
    """Return what an import path names.

    Only while its module is imported, and only if it is not found otherwise, does the search
    include the working folder. Elsewhere `import` must never look there: somebody who stands in a
    shared folder would run what others left in it under the name of an optional package.

    The path is `module.name`, with any number of packages before it; `setting` is what names it,
    for messages.

    Raises `ConfigError` if there is no such module, it has no such name, or to import it fails.
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
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"{setting} is {path!r}, whose module raises an error when it is imported ({reason}); "
            "fix the module."
        ) from error


def _import_from_here(module: str) -> ModuleType:
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(folder)
