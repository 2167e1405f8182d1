"""The private addresses that seeds open: found as the crawl begins, and kept with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from crawlprio.config import read_setting
from crawlprio.errors import StoreError
from crawlprio.live.resolving import addresses_of
from crawlprio.web.addresses import (
    PrivateAddresses,
    SeedAddresses,
    address_of,
    normal_host,
    private_of,
)

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawlprio.store import Store

logger = logging.getLogger("crawlprio")

Share = Callable[[SeedAddresses], SeedAddresses]
"""Records the private addresses of seeds; returns what is on record for their hosts, or, if given
none, for all. What is on record for a host stays as it is."""

_KEY = "seed_addresses "


class SeedHosts:
    """Opens the private addresses of seeds, and no others.

    What a seed's name resolves to when the crawl begins is kept with the crawl: in its store, or in
    Redis for all of its workers. A name that points elsewhere later opens nothing.

    Parameters
    ----------
    addresses
        told what seeds open.
    share
        the record of the crawl.
    """

    def __init__(self, settings: BaseSettings, addresses: PrivateAddresses, share: Share) -> None:
        self._addresses = addresses
        self._share = share
        # A loopback server answers for every name.
        self._resolves = read_setting(settings, "TWISTED_REACTOR_ENABLED") and not read_setting(
            settings, "CRAWLPRIO_LOOPBACK"
        )
        if addresses.opens_seeds:
            self._open(share({}))

    async def add(self, hosts: Iterable[str]) -> None:
        """Open the private addresses of seeds: their own, or those that their names have now."""
        is_seed = self._addresses.is_seed
        new = {normal_host(host) for host in hosts if host}
        new = {host for host in new if not is_seed(host)}
        if not (self._addresses.opens_seeds and new):
            return
        names = [host for host in new if address_of(host) is None]
        resolved = await addresses_of(names) if names and self._resolves else {}
        resolved |= {host: [host] for host in new.difference(names)}
        found = {host: private_of(host, addresses) for host, addresses in resolved.items()}
        self._open(self._share(found) if found else {})
        # A name that has no address now opens none in this run, and is resolved again in the next.
        self._open({host: [] for host in new if not is_seed(host)})
        for host in names:
            if found.get(host):
                logger.info(
                    "Seed %s has the private addresses %s, which this crawl may fetch from; to "
                    "open their network, add it to CRAWLPRIO_PRIVATE_NETWORKS.",
                    host,
                    ", ".join(found[host]),
                )

    def _open(self, record: SeedAddresses) -> None:
        for host, addresses in record.items():
            self._addresses.add_seed(host, addresses)


def record_in(store: Store | None) -> Share:
    """Return the record of a crawl that has one worker; without a store, it opens what it finds.

    Raises
    ------
    StoreError
        if the record is damaged.
    """
    if store is None:
        return lambda found: found
    known = {
        key.removeprefix(_KEY): addresses.split() for key, addresses in store.facts(_KEY).items()
    }
    try:
        is_sound = all(private_of(host, known[host]) == known[host] for host in known)
    except ValueError:
        is_sound = False
    if not is_sound:
        raise StoreError(
            f"{store.path}: the file is damaged (addresses of its seeds); restore a backup."
        )

    def share(found: SeedAddresses) -> SeedAddresses:
        for host in found.keys() - known.keys():
            known[host] = found[host]
            store.set_meta(f"{_KEY}{host}", " ".join(found[host]))
        return {host: known[host] for host in found or known}

    return share
