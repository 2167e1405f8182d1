"""Switches a part of crawlprio on in every crawler of this process; Python imports it at start-up.

Put its folder on PYTHONPATH and name the part in CRAWLPRIO_UPSTREAM. Subprocesses inherit both, so
that the crawls that a test starts elsewhere run with it too. Settings of a test or project win over
what is set here, as they do for a user who adds one line to a project of his own.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

PART = os.environ.get("CRAWLPRIO_UPSTREAM", "")
CREATED = os.environ.get("CRAWLPRIO_UPSTREAM_CREATED", "")
"""File that gets a line for each test during which a crawler applied its settings."""


def switch_on(settings):
    """Add one part of crawlprio to the settings of a crawler."""
    if PART:
        # All crawls share a folder, and each would look at the stores of all crawls before it.
        settings.set("CRAWLPRIO_KEEP_STORES", 1, "default")
    if PART == "addon":
        from crawlprio import Addon

        settings.setdefault_in_component_priority_dict("ADDONS", Addon, 500)
    elif PART == "scheduler":
        settings.set("SCHEDULER", "crawlprio.schedulers.Scheduler", "addon")
    elif PART == "queue":
        settings.set("SCHEDULER_PRIORITY_QUEUE", "crawlprio.schedulers.OpicQueue", "addon")
    elif PART and PART != "handler":
        raise ValueError(
            f"CRAWLPRIO_UPSTREAM is {PART!r}; it must be addon, scheduler, queue or handler, or "
            "unset."
        )


def patch(crawler_module):
    """Wrap the one place where every crawler, however it is made, reads its add-ons."""
    crawler_class = crawler_module.Crawler
    apply_settings = crawler_class._apply_settings

    def _apply_settings(self):
        if not self.settings.frozen:
            if CREATED:
                with Path(CREATED).open("a") as file:
                    file.write(os.environ.get("PYTEST_CURRENT_TEST", "") + "\n")
            switch_on(self.settings)
        apply_settings(self)

    crawler_class._apply_settings = _apply_settings


def replace_handler(http11):
    """Give Scrapy's HTTP handler the class of crawlprio's, which derives from it."""
    from crawlprio.live.http_handler import HttpHandler

    http11.HTTP11DownloadHandler = HttpHandler


class Finder(MetaPathFinder):
    """Patches a module when it is first imported, so that other processes pay nothing."""

    def __init__(self, module, patch):
        self._module = module
        self._patch = patch

    def find_spec(self, name, path=None, target=None):
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader = spec.loader
            exec_module = loader.exec_module

            def execute(module):
                exec_module(module)
                self._patch(module)

            loader.exec_module = execute
        return spec


if PART or CREATED:
    sys.meta_path.insert(0, Finder("scrapy.crawler", patch))
if PART == "handler":
    name = "scrapy.core.downloader.handlers.http11"
    sys.meta_path.insert(0, Finder(name, replace_handler))
