"""Deprecated: this is `larc.domains.programs` now; the alias goes with version 0.3."""

import warnings

from larc.domains.programs import *  # noqa: F403
from larc.domains.programs import __all__ as __all__

warnings.warn(
    "larc.programs is now larc.domains.programs; this alias goes with version 0.3.",
    DeprecationWarning,
    stacklevel=2,
)
