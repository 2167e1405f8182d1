"""PageRank, and the share of it that a crawl has fetched: certain, likely, proved by walks."""
