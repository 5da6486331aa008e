"""What the prefix intervention decides."""

from __future__ import annotations

from dataclasses import dataclass

from larc.settings import setting
from larc.studies.audited_run import AboutRun


@dataclass(frozen=True)
class PrefixSettings(AboutRun):
    """What decides the results of the prefix intervention, besides the run it is about.

    The default is the paper's proportion, 736 of 3,321 audit jobs, taken from each repository. On
    the paper's queue ``653`` would be its very prefix: 653 pandas jobs, and all 83 of NumPy.
    """

    prefix: str = setting("22%", "The first audit jobs of each repository: a share, or a number.")
