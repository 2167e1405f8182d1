"""Signed requests: a robot proves who it is (Web Bot Auth)."""
