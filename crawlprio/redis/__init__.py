"""One frontier for many machines: its state is in Redis, and changed by Lua scripts alone."""
