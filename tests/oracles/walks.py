"""Random walks by drawing all of each, from a seed to where the surfer stops."""


def walk(links, seeds, random, damping=0.85):
    """The pages of a walk. `links` has a row for every page of the web."""
    pages = [random.choice(seeds)]
    while random.random() < damping:
        pages.append(random.choice(links[pages[-1]] or seeds))
    return pages


def ends_of_leaving_walks(links, fetched, seeds, n, random):
    """Where the first n walks end that ever leave the fetched pages."""
    ends = []
    while len(ends) < n:
        pages = walk(links, seeds, random)
        if not set(pages) <= set(fetched):
            ends.append(pages[-1])
    return ends
