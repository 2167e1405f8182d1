"""The value model `fasttext`: the probability of a label, by a model of fastText's."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from crawlprio.errors import ConfigError
from crawlprio.extras import require
from crawlprio.value.base import Page
from crawlprio.value.fasttext_file import labels_of

_PREFIX = "__label__"


class FastText:
    """The probability of a label of a supervised fastText model, `.bin` or `.ftz`.

    The model sees the text of a page, as one line, without its title.

    Parameters
    ----------
    argument
        `FILE:LABEL`, the label with or without `__label__`.

    Raises
    ------
    ConfigError
        The package is missing, the file is no such model, or it has no such label.
    """

    runs_in = "here"

    def __init__(self, argument: str) -> None:
        file, _, label = argument.rpartition(":")
        label = label.removeprefix(_PREFIX)
        require("fasttext", "fasttext", "The value model fasttext")
        try:
            labels = labels_of(Path(file or label))
        except OSError as error:
            raise ConfigError(f"{file or label} cannot be read ({error.strerror}).") from None
        except ValueError as error:
            raise ConfigError(
                f"{file or label} is not a fastText model that tells labels ({error}); name one."
            ) from None
        if not file or label not in labels:
            known = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
            raise ConfigError(
                f"CRAWLPRIO_VALUE is 'fasttext:{argument}'; give fasttext:FILE:LABEL with a label "
                f"of the model: {known}."
            )
        self._label = f"{_PREFIX}{label}"
        # Imported by name, so that type checkers do not need it.
        self._model = import_module("fasttext").load_model(file)

    def score_page(self, page: Page) -> float:
        """Return the value of a page. O(characters x labels)."""
        text = page.text.encode("utf-8", "replace").decode().replace("\n", " ")
        labels, probabilities = self._model.predict(text, k=-1)
        # A text without a word that the model knows may have no labels.
        value = dict(zip(labels, probabilities, strict=True)).get(self._label, 0.0)
        return min(float(value), 1.0)
