"""The papers' claims that can be judged on any web, as data; claims that say the same are one."""

from __future__ import annotations

from itertools import chain

import numpy as np
from paper_crawls import areas, at
from verdicts import Margin
from web_measures import (
    BATCH,
    BREADTH,
    GOOD,
    HOT,
    KNOWN,
    LEAST_LEAD,
    LENGTH,
    POOR,
    TAU_ERROR,
    Claim,
    behind_diagonal,
    best_of_three,
    better_by_rank,
    bound,
    by_day,
    by_day_with_sites,
    day,
    depth,
    early_by_links,
    extreme,
    few_backlinks,
    gain_by_rank,
    lag,
    large,
    late_lead,
    late_rates,
    lead,
    mean_by,
    on_small,
    p_cs,
    small,
    small_and_sparse,
    two_worst,
    with_sites,
    within,
)

BY = "Baeza-Yates et al."
CHO = "Cho et al."
NAJORK = "Najork & Wiener"
HIGHER = "the higher average cumulative PageRank"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        f"{CHO}, fig. 3: the more backlinks a page needs to be hot, the sooner hot pages are found",
        "P_ST at 20 % of the crawl rises from each share of hot pages to the next smaller",
        lambda s: bound(
            np.diff([early_by_links(s, x) for x in HOT.values()], axis=0).min(axis=0).tolist(), 0.0
        ),
        large,
    ),
    Claim(
        f"{CHO}, fig. 3: half of the hot pages (G = 100) are found in 20 % of the crawl",
        "P_ST is at least half, rounded to the nearest ten percent",
        lambda s: bound(early_by_links(s, HOT[100]).tolist(), 0.45),
        large,
        "half-at-20",
    ),
    Claim(
        f"{CHO}, fig. 3: after 80 % of the crawl, hot pages are found at about the rate of a "
        "random crawler",
        "within a factor of 2 of that rate",
        lambda s: bound([min(x - 0.5, 2.0 - x) for x in late_rates(s)], 0.0),
        large,
    ),
    Claim(
        f"{CHO}, graph 1: PageRank order beats backlink order even if importance is backlinks",
        "PageRank has the larger mean P_ST",
        lambda s: Margin(
            mean_by("pagerank", "backlinks")(s), mean_by("backlink-count", "backlinks")(s)
        ),
        large,
        "pagerank-over-backlinks-by-ib",
    ),
    Claim(
        f"{CHO}, graph 2: under Crawl & Stop PageRank order is best",
        "the largest mean P_CS of the three",
        best_of_three("pagerank", p_cs),
        large,
    ),
    Claim(
        f"{CHO}, graph 3: judged by PageRank, PageRank order is best",
        "the largest mean P_ST of the three",
        best_of_three("pagerank", lambda s, n: mean_by(n, "ranks")(s)),
        large,
        "pagerank-best-by-ir",
    ),
    Claim(
        f"{CHO}, graph 3: PageRank order is even more effective for IR than for IB",
        "its lead over backlink order is larger by IR",
        gain_by_rank,
        large,
    ),
    Claim(
        f"{CHO}, fig. 7: backlink count and breadth-first perform alike when judged by PageRank",
        "their mean P_ST differs by less than 0.05",
        lambda s: within(
            np.abs(
                np.subtract(mean_by("backlink-count", "ranks")(s), mean_by(BREADTH, "ranks")(s))
            ).tolist(),
            0.05,
        ),
        large,
    ),
    *(
        Claim(
            f"{CHO}, graphs 1 and 3: a good ordering finds hot pages sooner than no ordering "
            f"({words})",
            "mean P_ST of PageRank order is above 0.5, the diagonal",
            lambda s, by=by: bound(mean_by("pagerank", by)(s), 0.5),
            large,
            f"pagerank-over-diagonal-{by}",
        )
        for by, words in (("backlinks", "backlinks"), ("ranks", "PageRank"))
    ),
    Claim(
        f"{CHO}, section 5.2: backlink order goes deep at first, PageRank order mixes breadth "
        "and depth",
        "the first tenth of the fetches is deeper under backlink order",
        lambda s: Margin(depth(s, "backlink-count"), depth(s, "pagerank")),
        large,
    ),
    Claim(
        f"{CHO}, graph 4: on a small domain every ordering is at times worse than a random "
        "crawler (IB)",
        "each of the three is somewhere more than a point below the diagonal",
        lambda s: bound(behind_diagonal(s), 0.01),
        small_and_sparse,
    ),
    Claim(
        f"{CHO}, graph 4: on a small domain PageRank order is much better at first than "
        "backlink order",
        "PageRank has more of the hot pages at 10 % of the crawl",
        lambda s: Margin(
            *([at(c, 0.1) for c in on_small(s, n)] for n in ("pagerank", "backlink-count"))
        ),
        small_and_sparse,
    ),
    Claim(
        f"{CHO}, graph 5: most pages of a small domain have fewer than 5 backlinks",
        "more than half of the pages",
        few_backlinks,
        small,
    ),
    Claim(
        f"{CHO}, fig. 10: on the small domain all orderings do better by IR than by IB",
        "all three have the larger mean P_ST by IR, with as many pages hot",
        lambda s: bound(better_by_rank(s), 0.0),
        small_and_sparse,
    ),
    Claim(
        f"{CHO}, fig. 10: by IR, PageRank order is best on the small domain",
        "the largest mean P_ST of the three",
        best_of_three("pagerank", lambda s, n: areas(on_small(s, n, "ranks"))),
        small_and_sparse,
    ),
    Claim(
        f"{NAJORK}, fig. 1: the mean PageRank of day 1 is more than three times that of day 2",
        "the ratio is 3 or more",
        day("day 1 by day 2", least=3.0),
        by_day,
    ),
    Claim(
        f"{NAJORK}, fig. 1: the pages of day 1 are the best of the crawl, with about 7 times "
        "the mean",
        "the mean PageRank of day 1 is 5 or more",
        day("mean PageRank of day 1", least=5.0),
        by_day,
        "breadth-first-early",
    ),
    Claim(
        f"{NAJORK}, fig. 1: quality falls as the crawl goes on: day 1, the rest of week 1, week "
        "2, weeks 3 and 4, the rest",
        "the mean falls at each step",
        day("least fall from stretch to stretch"),
        by_day,
    ),
    Claim(
        f"{NAJORK}, fig. 4: by links between sites, day 1 is even better, and the fall after it "
        "is sharper",
        "both are larger than by all links",
        day("day 1, remote less all links", "day 1 by day 2, remote less all links"),
        by_day_with_sites,
    ),
    Claim(
        f"{NAJORK}, fig. 2: all of the top 10 pages and 91 of the top 100 are fetched on day 1",
        "10 and at least 91",
        day("top 10 on day 1", "top 100 on day 1", over=(10.0, 91.0)),
        by_day,
    ),
    Claim(
        f"{NAJORK}, fig. 2: beyond the top 400, the mean day rises with N to that of the whole "
        "crawl",
        "it rises with each power of ten from N = 100",
        day("least rise of the mean day with N"),
        by_day,
    ),
    Claim(
        f"{NAJORK}, section 5: important pages are found early wherever the crawl starts",
        "of the top 1 %, at least three times as many are in the first tenth as in a random tenth",
        day("top 1 % in the first tenth", least=0.3),
        by_day,
        "breadth-first-finds-top",
    ),
    Claim(
        f"{NAJORK}, fig. 3: of the top million pages, 96 % are fetched in the first 28 days, "
        "and 76 % are in the top million by then",
        "of the same share of the pages at least 91 and 71 %",
        day("top 0.3 % fetched in 28 days", "overlap of the top 0.3 %", over=(0.91, 0.71)),
        by_day,
    ),
    Claim(
        f"{NAJORK}, fig. 3: the overlap stays at 60 to 80 % for all N from 20",
        "never below 60 %",
        day("least overlap from N = 20", least=0.6),
        by_day,
    ),
    *(
        Claim(
            f"{NAJORK}, section 5: ordering by links steers to better pages than breadth-first: "
            f"{name}",
            "the mean PageRank of day 1 is higher",
            lambda s, n=name: Margin(s.first_day(n), s.first_day(BREADTH)),
            by_day,
            f"day-1-{name}",
        )
        for name in ("backlink-count", "pagerank", "opic")
    ),
    Claim(
        f"{NAJORK}, section 5: pages fetched in essentially random order have uniform quality",
        "the mean PageRank of day 1 is within 0.5 of the overall mean",
        lambda s: within([abs(x - 1.0) for x in s.first_day("random")], 0.5),
        by_day,
    ),
    Claim(
        f"{BY}, section 5.2: a random crawl gathers PageRank approximately linearly",
        "its average is within 0.03 of 0.5",
        lambda s: within([abs(x - 0.5) for x in s.averages("random")], 0.03),
        name="random-linear",
    ),
    Claim(
        f"{BY}, table 2, and Castillo et al., fig. 5: omniscient has the best performance",
        "the highest average",
        lambda s: Margin(s.averages("omniscient"), extreme(KNOWN, s.averages)),
        name="omniscient-best",
    ),
    Claim(
        f"{BY}, section 5.2, and Castillo et al., fig. 5: omniscient is too greedy: others "
        "surpass it late",
        "another leads by more than 0.001 of the PageRank after half of the pages",
        lambda s: bound(late_lead(s), LEAST_LEAD),
        name="omniscient-too-greedy",
        least=0.0,
    ),
    *(
        Claim(
            f"{BY}, fig. 4: {name} performs worse than a random crawl",
            "a lower average than `random`, which draws from the pages that wait",
            lead("random", name),
            name=f"{name}-below-random",
        )
        for name in ("backlink-count", "partial-pagerank")
    ),
    Claim(
        f"{BY}, table 2: backlink count and partial PageRank are the two worst strategies",
        "both averages are below those of breadth-first, batch PageRank, OPIC and larger sites "
        "first",
        two_worst,
    ),
    Claim(
        f"{BY}, fig. 4: breadth-first is close to the best for the first 20 to 30 % of pages",
        "behind the best by less than 0.05 at 20 and at 30 %",
        lambda s: within(np.maximum(lag(s, 0.2), lag(s, 0.3)).tolist(), 0.05),
        name="breadth-first-early-good",
    ),
    Claim(
        f"{BY}, fig. 4: after that breadth-first becomes less efficient",
        "it lags more at 50 % than at 20 %",
        lambda s: Margin(lag(s, 0.5).tolist(), lag(s, 0.2).tolist()),
    ),
    *(
        Claim(
            f"{BY}, table 2: {good} is better than {poor}",
            HIGHER,
            lead(good, poor),
            name=f"{good}-over-{poor}",
        )
        for good, poor in chain((g, p) for g in GOOD[:2] for p in POOR)
    ),
    *(
        Claim(
            f"{BY}, table 2{also}: larger sites first is better than {poor}",
            HIGHER,
            lead(LENGTH, poor),
            with_sites,
            f"larger-sites-first-over-{poor}",
        )
        for poor, also in (
            (BREADTH, ", and Castillo et al., fig. 5"),
            ("backlink-count", ""),
            ("partial-pagerank", ", and Castillo et al., fig. 5"),
        )
    ),
    Claim(
        "Castillo et al., fig. 5: larger sites first is better than batch PageRank",
        HIGHER,
        lead(LENGTH, BATCH),
        with_sites,
        "larger-sites-first-over-batch-pagerank",
    ),
    Claim(
        f"{BY}, conclusions: batch PageRank is not better than OPIC and larger sites first",
        "no higher average than the better of the two",
        lambda s: Margin(extreme(GOOD[1:], s.averages), s.averages(BATCH)),
        name="batch-not-over-opic",
    ),
    Claim(
        f"{BY}, table 2: OPIC and larger sites first perform alike",
        "averages within 0.02",
        lambda s: within(
            np.abs(np.subtract(s.averages("opic"), s.averages(LENGTH))).tolist(), 0.02
        ),
        with_sites,
    ),
    Claim(
        f"{BY}, section 5.2: larger sites first has the advantage when high coverage is wanted",
        "ahead of OPIC and batch PageRank at 80 % of the pages",
        lambda s: Margin(s.at(LENGTH, 0.8), extreme(GOOD[:2], lambda n: s.at(n, 0.8))),
        with_sites,
    ),
    Claim(
        f"{BY}, section 5.2: OPIC, larger sites first and batch PageRank have half of the "
        "PageRank after 20 to 30 % of the pages",
        "all three have half at 30 %",
        lambda s: bound(extreme(GOOD, lambda n: s.at(n, 0.3), min), 0.5),
        with_sites,
    ),
    Claim(
        f"{BY}, table 2: by Kendall's tau larger sites first is the best strategy without history",
        "the highest tau",
        lambda s: Margin(s.taus(LENGTH), extreme([n for n in KNOWN if n != LENGTH], s.taus)),
        with_sites,
        least=TAU_ERROR,
    ),
)
