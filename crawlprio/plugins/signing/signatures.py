"""Signed requests: HTTP message signatures (RFC 9421) by which a robot proves who it is.

They follow draft-ietf-webbotauth-httpsig-protocol-00 (Web Bot Auth), with Ed25519.
"""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64encode, urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from crawlprio.errors import ConfigError
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.safe_files import open_file
from crawlprio.settings_table.config import read_setting
from crawlprio.web.urls import parse_url

if TYPE_CHECKING:
    from scrapy import Request

SECONDS = 600
"""How long a signature is valid."""

_LABEL = "crawl"


class Signer(CrawlPart):
    """Signs each request with CRAWLPRIO_SIGNING_KEY, for the host to which it is about to be sent.

    Pages, redirects, robots.txt, sitemaps and page requisites are signed alike. The origin in
    CRAWLPRIO_SIGNATURE_AGENT publishes the public key, as `key_directory` returns it.
    """

    is_in_workers = is_in_dry_runs = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        settings = crawl.crawler.settings
        key = read_setting(settings, "CRAWLPRIO_SIGNING_KEY")
        agent = read_setting(settings, "CRAWLPRIO_SIGNATURE_AGENT")
        if key is None or agent is None:
            raise ConfigError(
                "CRAWLPRIO_SIGNING_KEY and CRAWLPRIO_SIGNATURE_AGENT belong together, but only one "
                "of them is set; set both, or none."
            )
        self._key = read_key(key)
        self._agent = f'"{agent}"'
        self._key_id = thumbprint(public_key(self._key))

    def fetch_started(self, request: Request) -> None:
        if request.url[:5].lower().startswith("http"):
            for name, value in self._headers(request.url, time()).items():
                request.headers[name] = value

    def _headers(self, url: str, now: float) -> dict[str, str]:
        """Return the headers that sign a request for a URL, sent at a Unix time; 0.1 ms."""
        parsed = parse_url(url)
        authority = "" if parsed is None else parsed.host
        created = int(now)
        nonce = b64encode(secrets.token_bytes(32)).decode()
        covered = f'("@authority" "signature-agent";key="{_LABEL}")'
        params = (
            f'{covered};created={created};expires={created + SECONDS};keyid="{self._key_id}";'
            f'alg="ed25519";nonce="{nonce}";tag="web-bot-auth"'
        )
        base = (
            f'"@authority": {authority}\n'
            f'"signature-agent";key="{_LABEL}": {self._agent}\n'
            f'"@signature-params": {params}'
        )
        signature = b64encode(self._key.sign(base.encode())).decode()
        return {
            "Signature-Agent": f"{_LABEL}={self._agent}",
            "Signature-Input": f"{_LABEL}={params}",
            "Signature": f"{_LABEL}=:{signature}:",
        }


def read_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in a PEM file; raise ConfigError if there is none."""
    try:
        with open_file(path, "rb", follow=True) as file:
            mode = os.fstat(file.fileno()).st_mode & 0o077
            text = file.read()
        key = load_pem_private_key(text, None)
    except OSError as error:
        raise ConfigError(f"the signing key {path}: {error.strerror}; check the file.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            f"the signing key {path} is no Ed25519 key in PEM without a password; make one with "
            "openssl genpkey -algorithm ed25519 -out FILE."
        )
    if mode and os.name == "posix":
        raise ConfigError(
            f"the signing key {path} may be read or written by other users of this machine; run "
            f"chmod 600 {path}, and make another key if others may have read it."
        )
    return key


def public_key(key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the public key as a JSON web key (RFC 8037)."""
    raw = key.public_key().public_bytes_raw()
    return {"crv": "Ed25519", "kty": "OKP", "x": _base64url(raw)}


def thumbprint(jwk: dict[str, str]) -> str:
    """Return the thumbprint of a JSON web key (RFC 7638)."""
    text = json.dumps(jwk, sort_keys=True, separators=(",", ":"))
    return _base64url(sha256(text.encode()).digest())


def key_directory(path: str | Path) -> str:
    """Return what to publish as `/.well-known/http-message-signatures-directory`, as JSON.

    `path` is the PEM file with the private key.
    """
    jwk = public_key(read_key(Path(path)))
    return json.dumps({"keys": [{**jwk, "kid": thumbprint(jwk), "use": "sig"}]})


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
