"""The topics of the demo web, with their vocabularies and the sentences made from them."""

from __future__ import annotations

import random

_WORDS = {
    "astronomy": "nebula orbit telescope galaxy comet planet eclipse quasar pulsar asteroid "
    "supernova spectrum parallax redshift corona lunar",
    "baking": "sourdough yeast oven flour crust pastry dough brioche whisk glaze custard rye "
    "kneading cinnamon sponge loaf",
    "sailing": "rudder mast regatta keel harbour tide anchor spinnaker jib buoy helm windward "
    "skipper mooring dinghy halyard",
    "gardening": "compost seedling orchard trellis mulch pruning perennial greenhouse bulb hedge "
    "watering lawn tomato graft soil bloom",
    "statistics": "variance regression sample median likelihood estimator quantile bootstrap "
    "prior correlation residual histogram outlier covariate binomial skewness",
    "music": "violin sonata rhythm choir cadence melody fugue tempo orchestra chord octave "
    "libretto clarinet overture harmony quartet",
    "geology": "basalt fault sediment quartz glacier magma fossil strata mineral erosion granite "
    "tectonic crystal volcano limestone seismic",
    "chess": "gambit bishop endgame castling knight zugzwang opening rook checkmate pawn "
    "fianchetto middlegame sacrifice blunder stalemate queen",
    "cycling": "derailleur peloton saddle sprint pedal velodrome climb handlebar breakaway crank "
    "spoke commuter gravel stage puncture brake",
    "printing": "typeface kerning serif ink press letterpress margin glyph engraving lithograph "
    "folio binding woodcut ligature paper baseline",
    "medicine": "vaccine diagnosis artery surgeon dosage immunity clinic symptom therapy virus "
    "antibody fever patient nursing biopsy insulin",
    "robotics": "actuator gripper sensor servo controller kinematics lidar torque odometry "
    "encoder planner firmware joint calibration swarm chassis",
}

VOCABULARY: dict[str, tuple[str, ...]] = {t: tuple(words.split()) for t, words in _WORDS.items()}
"""The 16 words of each topic; no word belongs to two topics."""

TOPICS: tuple[str, ...] = tuple(VOCABULARY)

_PATTERNS = (
    "Every {topic} notebook should begin with the {0} and the {1}.",
    "A {0} without a {1} is only half of {topic}.",
    "We compared the {0} with the {1} and kept the {2}.",
    "Readers often ask how the {0} changes a {1}.",
    "The second chapter follows one {0} from the {1} to the {2}.",
    "Nobody who knows {topic} would leave out the {0}.",
    "Between the {0} and the {1} there is always a {2}.",
    "Last year the {0} came late, and the {1} suffered for it.",
)


def sentences(topic: str, n: int, seed: int) -> list[str]:
    """Return `n` sentences on a topic; the same seed gives the same sentences."""
    draw = random.Random(f"{seed}/{topic}")
    words = VOCABULARY[topic]
    return [draw.choice(_PATTERNS).format(*draw.sample(words, 3), topic=topic) for _ in range(n)]
