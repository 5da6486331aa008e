"""The frozen model: where it comes from, what it is, and how activations go through it."""

from larc.substrate.fetching import fetch
from larc.substrate.frozen import Substrate
from larc.substrate.identity import Identity
from larc.substrate.sources import PRESETS, load_substrate

__all__ = ["PRESETS", "Identity", "Substrate", "fetch", "load_substrate"]
