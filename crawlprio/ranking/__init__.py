"""PageRank, and what share of it a crawl has: certain, likely, and proved by walks."""
