"""The value model `language`: pages in some languages, and what else they are worth."""

from __future__ import annotations

from crawlprio.errors import ConfigError
from crawlprio.texts.language import languages
from crawlprio.value.base import Page, ScoredModel


class Language:
    """Pages in one of some languages are worth what another model says, or 1; all others 0.

    A page whose text is too short to tell its language is worth 0. The other model sees only the
    pages in these languages.

    Parameters
    ----------
    codes
        Comma-separated languages, as ISO 639 writes them.
    model
        The other model.
    """

    needs_language = True

    def __init__(self, codes: str, model: ScoredModel | None) -> None:
        self._codes = {code.strip().lower() for code in codes.split(",")}
        self._model = model
        self.learns = model is not None and model.learns
        self.runs_in = "here" if model is None else model.runs_in
        self.batch, self.timeout = (32, 60.0) if model is None else (model.batch, model.timeout)
        unknown = sorted(self._codes - languages())
        if unknown:
            raise ConfigError(
                f"CRAWLPRIO_VALUE names the language {unknown[0]!r}, which is unknown; give codes "
                "such as de or en, as in 'language:de,en' or 'language:de:words:garten'."
            )

    def score_pages(self, pages: list[Page]) -> list[float]:
        """Return the values of pages; O(1) per page beside detection and the other model."""
        inside = [page for page in pages if page.language in self._codes]
        if self._model is None or not inside:
            scores = [1.0] * len(inside)
        else:
            scores = self._model.score_all(inside)
        left = iter(scores)
        return [next(left) if page.language in self._codes else 0.0 for page in pages]

    def score_page(self, page: Page) -> float:
        return self.score_pages([page])[0]
