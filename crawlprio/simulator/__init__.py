"""The simulator: crawls of a link graph, without a network."""
