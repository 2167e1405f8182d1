"""Random walks by drawing all of each, from a seed to where the surfer stops."""

from random import Random


def walk(
    links: dict[int, list[int]], seeds: list[int], random: Random, damping: float = 0.85
) -> list[int]:
    """The pages of a walk. `links` has a row for every page of the web."""
    pages = [random.choice(seeds)]
    while random.random() < damping:
        pages.append(random.choice(links[pages[-1]] or seeds))
    return pages


def ends_of_leaving_walks(
    links: dict[int, list[int]], fetched: list[int], seeds: list[int], n: int, random: Random
) -> list[int]:
    """Where the first n walks end that ever leave the fetched pages."""
    ends: list[int] = []
    while len(ends) < n:
        pages = walk(links, seeds, random)
        if not set(pages) <= set(fetched):
            ends.append(pages[-1])
    return ends
