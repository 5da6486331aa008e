"""What is compared, by the names it has in rows and reports."""

from __future__ import annotations

RESET, KEEP, LATEST, SHAM = "RESET", "KEEP", "LATEST", "SHAM"
#: Counts of labels, the last label; hashed words alone, with a private bias, with private words.
FREQUENCIES, LAST = "FREQUENCIES", "LAST"
WORDS, WORDS_BIAS, WORDS_PRIVATE = "WORDS", "WORDS BIAS", "WORDS PRIVATE"
#: On the frozen model's features: a private read-out, and the nearest labelled cases.
READOUT, NEAREST = "READOUT", "NEAREST"
#: Private bias and private words that stand on what a state says, or that and the words of all.
WORDS_ON_RESET, WORDS_ON_KEEP = "WORDS ON RESET", "WORDS ON KEEP"
WORDS_ON_BOTH = "WORDS ON BOTH"
#: Weigh the single paths without a language model; the paths that validation chose; everything.
MIXTURE, CONTROLLER, CONTROLLER_ALL = "MIXTURE", "CONTROLLER", "CONTROLLER OF ALL"
#: Single paths that put nothing through a language model.
MODEL_FREE = (FREQUENCIES, LAST, WORDS, WORDS_BIAS, WORDS_PRIVATE)
EXPERTS = (*MODEL_FREE, READOUT, NEAREST)
