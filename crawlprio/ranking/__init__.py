"""The PageRank solver and coverage bound that orderings, crawls and importance share."""
