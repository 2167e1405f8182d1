"""The PageRank solver, on which orderings and importance stand."""
