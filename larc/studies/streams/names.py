"""What is compared, by the names it has in rows and reports."""

from __future__ import annotations

RESET, KEEP, LATEST, SHAM = "RESET", "KEEP", "LATEST", "SHAM"
#: Counts of labels, the last label; hashed words alone, with a private bias, with private words.
FREQUENCIES, LAST = "FREQUENCIES", "LAST"
WORDS, WORDS_BIAS, WORDS_PRIVATE = "WORDS", "WORDS BIAS", "WORDS PRIVATE"
#: On the frozen model's features: a private read-out, and the nearest labelled cases.
READOUT, NEAREST = "READOUT", "NEAREST"
#: Private bias and private words that stand on what a state says, or that and the words of all; or
#: on those words alone, with no model at all.
WORDS_ON_WORDS = "WORDS ON WORDS"
WORDS_ON_RESET, WORDS_ON_KEEP = "WORDS ON RESET", "WORDS ON KEEP"
WORDS_ON_BOTH = "WORDS ON BOTH"
#: Weigh the single paths without a language model; the paths that validation chose; everything.
MIXTURE, CONTROLLER, CONTROLLER_ALL = "MIXTURE", "CONTROLLER", "CONTROLLER OF ALL"
#: Experts that put nothing through a language model, and everything that does not.
PLAIN = (FREQUENCIES, LAST, WORDS, WORDS_BIAS, WORDS_PRIVATE)
MODEL_FREE = (*PLAIN, WORDS_ON_WORDS, MIXTURE)
EXPERTS = (*PLAIN, READOUT, NEAREST)
#: What is answered with every training seed; whatever else depends on one has the first.
EVERY_SEED = (RESET, KEEP, LATEST, SHAM)
