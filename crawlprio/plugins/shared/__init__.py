"""One frontier for several processes: the brain holds frontier and store, hands fetch for it."""
