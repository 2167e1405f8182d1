"""A frontier shared by many machines: state in Redis, changed only by Lua scripts."""
