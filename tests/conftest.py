"""Shared fixtures."""

from redis_servers import redis_cluster, redis_server, shared_cluster, shared_server

__all__ = ["redis_cluster", "redis_server", "shared_cluster", "shared_server"]
