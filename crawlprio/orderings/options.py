"""Validation of ordering options; an invalid option is rejected with a one-sentence error."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crawlprio.errors import ConfigError


def checked_number(
    ordering: str,
    option: str,
    value: object,
    *,
    least: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> float:
    """Return an option as a number; raise ConfigError if it is invalid."""
    kind = "a whole number" if whole else "a number"
    bound = "" if least is None else f" of {least:g} or more"
    if below is not None:
        bound += f", below {below:.16g}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
        if not np.isfinite(number) or (whole and number != int(number)):
            raise ValueError
        if (least is not None and number < least) or (below is not None and number >= below):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give {kind}{bound}."
        ) from None
    return number


def checked_weights(ordering: str, option: str, value: object) -> dict[str, float]:
    """Return an option that maps names to weights; raise ConfigError if it is invalid."""
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give a dict of names and "
            'weights, such as {"com": 1.0}.'
        )
    return {
        str(name).casefold(): checked_number(ordering, f"{option}[{name!r}]", weight)
        for name, weight in value.items()
    }


def checked_switch(ordering: str, option: str, value: object) -> bool:
    """Return an option that is True or False; raise ConfigError if it is neither."""
    if not isinstance(value, bool):
        raise ConfigError(
            f"ORDERING_OPTIONS of {ordering}: {option} is {value!r}; give True or False."
        )
    return value


def checked_seed(ordering: str, value: object) -> int:
    """Return the seed of the random number generator; raise ConfigError if it is invalid."""
    return int(checked_number(ordering, "seed", value, least=0, below=2**53, whole=True))
