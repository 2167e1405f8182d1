"""The refusal of a crawl whose project lacks a component that its settings need."""

from __future__ import annotations

from crawlprio.errors import ConfigError


def lacking_component(*, needs_links: bool, guards: bool, keeps_items: bool) -> ConfigError | None:
    """Return the refusal for the first need that nothing meets; None if there is none.

    Parameters
    ----------
    needs_links
        Whether crawlprio's scheduler lacks `LinksMiddleware`.
    guards
        Whether the guard of private addresses lacks it.
    keeps_items
        Whether items are to be kept without crawlprio's scheduler.
    """
    if needs_links or guards:
        need = (
            "SCHEDULER is crawlprio's, which gets links from its LinksMiddleware"
            if needs_links
            else "CRAWLPRIO_PRIVATE_ADDRESSES is on, which needs LinksMiddleware to know what "
            "comes from a page"
        )
        return ConfigError(
            f"{need}; set ADDONS = {{'crawlprio.Addon': 500}}, or add LinksMiddleware to "
            "SPIDER_MIDDLEWARES."
        )
    if keeps_items:
        return ConfigError(
            "CRAWLPRIO_ITEMS is on, but SCHEDULER is not crawlprio's, and no other scheduler knows "
            "when a page is done; set SCHEDULER = 'crawlprio.schedulers.Scheduler'."
        )
    return None
