"""Tests for what users write themselves; they need pytest only to be run."""

from crawlprio.testing.contract import FrontierContract

__all__ = ["FrontierContract"]
