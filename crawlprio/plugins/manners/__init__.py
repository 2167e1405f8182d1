"""How a crawler behaves: judged by a server's log, and proved by signed requests."""
