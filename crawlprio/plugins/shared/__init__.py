"""One frontier for several processes: the coordinator holds frontier and store, workers fetch for
it.
"""
