"""The frontier in Redis, shared by many workers."""
