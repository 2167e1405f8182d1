"""Private hosts and addresses, and which of them a crawl may fetch from."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

import can_ada

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SeedAddresses = dict[str, list[str]]
"""The private addresses of seeds, by normalised host; none for a public seed."""

ALLOW_PRIVATE = "allow_private_address"
"""The `meta` key by which a request says whether it may go to any private address.

True: it may. False: it counts as the page's; so do all requests that callbacks yield without it.
"""

_LOCAL_ENDINGS = frozenset(
    ("corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private")
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_LINK_LOCAL = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10")))


@lru_cache(maxsize=10_000)
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
    address = _embedded(address)
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return True
    return not address.is_global or address.is_multicast


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address embeds, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


class PrivateAddresses:
    """Decides which private hosts and addresses pages may lead to; not thread-safe.

    In the mode `"seeds"` (the default) these are the addresses of the seeds, see `add_seed`;
    `"allow"` opens all, and `"refuse"` none, not even those of seeds. The networks, addresses and
    names in `granted` are open in any mode. Cost: 0.1 µs for a host that was checked before.
    """

    def __init__(self, mode: str = "seeds", granted: Iterable[str] = ()) -> None:
        self.is_open = mode == "allow"
        self.opens_seeds = mode == "seeds"
        self._networks: set[Network] = set()
        self._names: set[str] = set()
        for grant in granted:
            network = network_of(grant)
            if network is None:
                self._names.add(normal_host(grant))
            else:
                self._networks.add(network)
        self._seeds: set[str] = set()
        self._private_names: set[str] = set()
        self._judged: dict[str, bool] = {}

    def is_seed(self, host: str) -> bool:
        return host in self._seeds

    def add_seed(self, host: str, addresses: Iterable[str]) -> None:
        """Open the addresses of a seed, which for a name are those from `private_of`."""
        self._seeds.add(host)
        self._networks.update(map(ipaddress.ip_network, addresses))
        self._judged.clear()

    def close_name(self, host: str) -> None:
        """Close a name: the project's own fetch has connected it to a private address.

        The connection may still be open, and a page's fetch would use it unchecked.
        """
        self._private_names.add(host)
        self._judged.clear()

    def allows_host(self, host: str) -> bool:
        """Return whether a host may be requested, before its name is resolved.

        Names under `.localhost`, `.local`, `.internal` and the like are private whatever they
        resolve to; other names are allowed here.
        """
        if self.is_open:
            return True
        allowed = self._judged.get(host)
        if allowed is None:
            if len(self._judged) >= 100_000:
                self._judged.clear()
            allowed = self._judged[host] = self._judge(normal_host(host))
        return allowed

    def allowed_of(self, host: str, addresses: Sequence[str]) -> list[str]:
        """Return the resolved addresses of a host that may be connected to."""
        if self.is_open or normal_host(host) in self._names:
            return list(addresses)
        return [text for text in addresses if self._allows(_parse(text))]

    def _judge(self, host: str) -> bool:
        if host in self._names:
            return True
        if host in self._private_names:
            return False
        address = address_of(host)
        if address is not None:
            return self._allows(address)
        ending = "home" if host.endswith(".home.arpa") else host.rpartition(".")[2]
        if ending not in _LOCAL_ENDINGS or host in self._seeds:
            return True
        return ending == "localhost" and self._allows(ipaddress.IPv4Address("127.0.0.1"))

    def _allows(self, address: Address) -> bool:
        return not is_private(address) or _is_in(address, self._networks)


def private_of(host: str, resolved: Iterable[str]) -> list[str]:
    """Return the private addresses that a seed opens.

    A host that is an address opens itself. A name opens what it resolves to, except link-local
    addresses, among which are the metadata services of clouds.
    """
    literal = address_of(host)
    if literal is not None:
        return [str(literal)] if is_private(literal) else []
    found = dict.fromkeys(map(_parse, resolved))
    return [
        str(address)
        for address in found
        if is_private(address) and not _is_in(_embedded(address), _LINK_LOCAL)
    ]


def network_of(text: str) -> Network | None:
    """Return the network given by a text, which may also be an address; None for a name."""
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


def _parse(text: str) -> Address:
    """Parse an address without its zone; unwrap an IPv4-mapped address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = getattr(address, "ipv4_mapped", None)
    return address if inner is None else inner


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
