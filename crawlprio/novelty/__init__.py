"""Which waiting pages are likely to bring something new, learned from those that were fetched."""

from crawlprio.novelty.learner import Novelty

__all__ = ["Novelty"]
