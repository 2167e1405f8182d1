"""Private hosts and addresses, and which of them a crawl may fetch from."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, Sequence
from functools import lru_cache

import can_ada

logger = logging.getLogger("crawlprio")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PRIVATE_ADDRESSES = ("allow", "refuse", "seeds")
"""Values of CRAWLPRIO_PRIVATE_ADDRESSES."""

_LOCAL_ENDINGS = frozenset(
    ("corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_LINK_LOCAL = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10")))
_NETWORKS = tuple(
    tuple(map(ipaddress.ip_network, networks.split()))
    for networks in (
        "127.0.0.0/8 ::1/128",
        "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7",
        "100.64.0.0/10",
    )
)


@lru_cache(maxsize=100_000)
def normal_host(host: str) -> str:
    """Return a host as the URL standard serialises it: lower-case ASCII, or a normalised address.

    `0x7f.1`, `2130706433` and `017700000001` become `127.0.0.1`. IPv6 addresses have no brackets.
    An invalid host is returned in lower case.
    """
    bare = host.strip("[]").partition("%")[0]
    try:
        found = can_ada.parse(f"http://[{bare}]/" if ":" in bare else f"http://{host}/").hostname
    except (ValueError, TypeError):
        return host.lower()
    name = str(found).strip("[]")
    # With two trailing dots it is neither a valid name nor an address.
    return name if name.endswith("..") else name.removesuffix(".") or host.lower()


def address_of(host: str) -> Address | None:
    """Return the address of a host that is an address in any notation; None for a name."""
    host = normal_host(host)
    # Under the URL standard, no name ends in a number.
    if ":" not in host and not host[-1:].isdigit():
        return None
    try:
        return _parse(host)
    except ValueError:
        return None


def is_private(address: Address) -> bool:
    """Return whether an address is one that no public web site can have.

    These are all addresses that are not globally reachable (loopback, private use, link-local
    including cloud metadata services, shared, reserved, multicast), also if embedded in IPv6:
    mapped, 6to4 or NAT64. In IPv6 only 2000::/3 is assigned to sites (RFC 4291, section 2.4, and
    IANA's registry), so site-local, IPv4-compatible and local NAT64 addresses are private.
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_private(inner)
        if address not in _GLOBAL_UNICAST:
            return True
    return not address.is_global or address.is_multicast


class PrivateAddresses:
    """Decides which private hosts and addresses a crawl may fetch from.

    Parameters
    ----------
    mode
        `"seeds"` (the default): those of the seeds. A seed given as an address opens its network: a
        loopback address (including `localhost`) opens all loopback addresses, one in a private
        network all private networks, and any other private address only itself. A seed given as a
        name opens the addresses of its *first* resolution, except link-local ones, and no others; a
        local name also opens the names with the same ending. `"allow"`: all; `"refuse"`: none, not
        even those of seeds.
    granted
        Networks, addresses and names that are open in any mode.

    Notes
    -----
    A seed whose first resolution was public stays public: if its owner points the name elsewhere
    later, that opens nothing. Not thread-safe. Cost: 0.1 µs for a host that was checked before.
    """

    def __init__(self, mode: str = "seeds", granted: Iterable[str] = ()) -> None:
        self._mode = mode
        self._granted: set[Network] = set()
        self._granted_names: set[str] = set()
        for grant in granted:
            network = network_of(grant)
            if network is None:
                self._granted_names.add(normal_host(grant))
            else:
                self._granted.add(network)
        self._seed_hosts: set[str] = set()
        self._endings: set[str] = set()
        self._opened: set[Network] = set()
        self._first_answered: set[str] = set()
        self._judged: dict[str, bool] = {}

    @property
    def is_open(self) -> bool:
        """Whether every address may be fetched from, regardless of the seeds."""
        return self._mode == "allow"

    def add_seed(self, host: str) -> None:
        """Add the host of a seed, a name or an address."""
        host = normal_host(host)
        if host in self._seed_hosts:
            return
        self._seed_hosts.add(host)
        self._judged.clear()
        address = address_of(host)
        if address is None and _ending(host) in _LOCAL_ENDINGS:
            self._endings.add(_ending(host))
            if _ending(host) == "localhost":
                address = ipaddress.IPv4Address("127.0.0.1")
        if address is not None and is_private(address):
            self._open_network(address)

    def allows_host(self, host: str) -> bool:
        """Return whether a host may be requested, before its name is resolved.

        Names under `.localhost`, `.local`, `.internal` and the like are private whatever they
        resolve to; other names are allowed here.
        """
        if self._mode == "allow":
            return True
        allowed = self._judged.get(host)
        if allowed is None:
            if len(self._judged) >= 100_000:
                self._judged.clear()
            allowed = self._judged[host] = self._judge(normal_host(host))
        return allowed

    def allowed_of(self, host: str, addresses: Sequence[str]) -> list[str]:
        """Return the resolved addresses of a host that may be connected to."""
        host = normal_host(host)
        if self._mode == "allow" or host in self._granted_names:
            return list(addresses)
        if host in self._seed_hosts and host not in self._first_answered and addresses:
            self._first_answered.add(host)
            if self._mode == "seeds":
                self._open_answer(host, list(map(_parse, addresses)))
        return [text for text in addresses if self._allows(_parse(text))]

    def _judge(self, host: str) -> bool:
        address = address_of(host)
        if address is not None:
            return self._allows(address)
        ending = _ending(host)
        if ending not in _LOCAL_ENDINGS or host in self._granted_names:
            return True
        if ending in self._endings:
            return self._mode == "seeds"
        return ending == "localhost" and self._allows(ipaddress.IPv4Address("127.0.0.1"))

    def _allows(self, address: Address) -> bool:
        if not is_private(address) or _is_in(address, self._granted):
            return True
        return self._mode == "seeds" and _is_in(address, self._opened)

    def _open_network(self, address: Address) -> None:
        """Open the networks that contain a seed's private address."""
        for networks in _NETWORKS:
            if _is_in(address, networks):
                self._opened.update(networks)
                break
        else:
            self._opened.add(ipaddress.ip_network(address))
        self._judged.clear()

    def _open_answer(self, host: str, addresses: Sequence[Address]) -> None:
        """Open the private addresses to which a seed's name resolved, and log them."""
        for address in addresses:
            if self._allows(address) or _is_in(address, _LINK_LOCAL):
                continue
            self._opened.add(ipaddress.ip_network(address))
            self._judged.clear()
            logger.info(
                "Seed %s has the private address %s, which this crawl may fetch from; to open its "
                "network, add the network to CRAWLPRIO_PRIVATE_NETWORKS.",
                host,
                address,
            )


def network_of(text: str) -> Network | None:
    """Return the network given by a text, which may also be an address; None for a name."""
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _ending(host: str) -> str:
    """Return the last label of a name, or `home` for `home.arpa`."""
    return "home" if host.endswith(".home.arpa") else host.rpartition(".")[2]


def _parse(text: str) -> Address:
    """Parse an address without its zone; unwrap an IPv4-mapped address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None)
    return address if inner is None else inner


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
