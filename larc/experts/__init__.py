"""Experts for text: predictors one would use without a state, or on top of one.

Each has a slow part that is fitted on training streams, and a private part that learns online as
labels arrive; `begin` gives a new stream a private part of its own. They answer and learn as
`larc.stream.experts.Expert` says, so a controller or a study takes them as they are.
"""

from larc.experts.base import TextExpert, load_expert
from larc.experts.counting import LabelFrequencies, LastLabel
from larc.experts.features import FeatureReadout, NearestCases, PooledFeatures
from larc.experts.logistic import Logistic
from larc.experts.words import WordLogistic, hashed_words, reading

__all__ = [
    "FeatureReadout",
    "LabelFrequencies",
    "LastLabel",
    "Logistic",
    "NearestCases",
    "PooledFeatures",
    "TextExpert",
    "WordLogistic",
    "hashed_words",
    "load_expert",
    "reading",
]
