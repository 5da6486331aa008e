"""Deprecated: this is `larc.domains.ci` now; the alias goes with version 0.3."""

import warnings

from larc.domains.ci import *  # noqa: F403
from larc.domains.ci import __all__ as __all__

warnings.warn(
    "larc.ci is now larc.domains.ci; this alias goes with version 0.3.",
    DeprecationWarning,
    stacklevel=2,
)
