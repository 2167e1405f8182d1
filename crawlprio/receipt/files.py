"""The file of a receipt, beside the store."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from crawlprio.errors import StoreError

NAME = "receipt.json"


def text_of(receipt: dict[str, Any]) -> str:
    """Return a receipt as JSON, equal byte for byte for equal receipts."""
    return json.dumps(receipt, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_receipt(receipt: dict[str, Any], path: Path) -> None:
    """Write a receipt, whole or not at all; raise `StoreError` if that fails."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # As private as the store, whose URLs it names.
        with open(unfinished, "w", encoding="utf-8", newline="\n", opener=_private) as file:
            file.write(text_of(receipt))
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(f"{path}: the receipt cannot be written ({error.strerror}).") from None


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_CREAT | os.O_TRUNC, 0o600)
