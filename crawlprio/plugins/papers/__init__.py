"""Orderings, measures and formats that only the papers' experiments need."""
