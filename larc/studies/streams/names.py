"""What is compared, by the names it has in rows and reports."""

from __future__ import annotations

RESET, KEEP, LATEST, SHAM = "RESET", "KEEP", "LATEST", "SHAM"
PRIOR = "PRIOR"
#: Weighs the paths without a language model.
MIXTURE = "MIXTURE"
#: Weighs everything.
CONTROLLER = "CONTROLLER"
#: Paths that put nothing through a language model.
MODEL_FREE = (PRIOR,)
