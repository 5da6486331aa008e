"""Feedback crossed with retention: four risks, and the three differences that are asked about.

Every contrast is linear in the risks, so it can be taken per row and averaged or resampled
afterwards: the mean of the contrast is the contrast of the means.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from larc.errors import LarcError
from larc.evaluation.checks import Floats, finite_array


@dataclass(frozen=True, eq=False)
class Cells:
    """The query risk under each intervention, as arrays of one shape.

    Real feedback stays bound to its candidates; sham feedback is permuted among them. The state
    learned from it is kept for the query, or reset to its start just before.

    Rows come first; further axes (seeds, say) are free.

    Examples
    --------
    >>> cells = Cells(real_keep=[0.2], real_reset=[0.6], sham_keep=[0.7], sham_reset=[0.6])
    >>> cells.real_keep
    array([0.2])
    """

    real_keep: Floats
    real_reset: Floats
    sham_keep: Floats
    sham_reset: Floats

    def __post_init__(self) -> None:
        for field in fields(self):
            risks = finite_array(getattr(self, field.name), f"the {field.name} cell")
            object.__setattr__(self, field.name, risks)
        shapes = {field.name: getattr(self, field.name).shape for field in fields(self)}
        if len(set(shapes.values())) > 1:
            raise LarcError(f"the cells differ in shape, {shapes}; give the same rows in each.")


def retention_gain(cells: Cells) -> Floats:
    """Return G: how much lower the risk is when what real feedback taught is kept.

    Examples
    --------
    >>> cells = Cells(real_keep=[0.25], real_reset=[0.5], sham_keep=[0.75], sham_reset=[0.5])
    >>> retention_gain(cells)
    array([0.25])
    """
    return cells.real_reset - cells.real_keep


def binding_gain(cells: Cells) -> Floats:
    """Return D: how much of that gain depends on which candidate each loss belonged to.

    A positive D alone is not a benefit: real feedback can hurt, and permuted feedback hurt more.

    Examples
    --------
    >>> cells = Cells(real_keep=[0.25], real_reset=[0.5], sham_keep=[0.75], sham_reset=[0.5])
    >>> binding_gain(cells)
    array([0.5])
    """
    return retention_gain(cells) - (cells.sham_reset - cells.sham_keep)


def objective_gain(static: Cells, adapted: Cells) -> Floats:
    """Return the contrast of outer objectives: static minus adapted risk, real feedback kept.

    Examples
    --------
    >>> static = Cells(real_keep=[0.5], real_reset=[0.5], sham_keep=[0.5], sham_reset=[0.5])
    >>> adapted = Cells(real_keep=[0.25], real_reset=[1.0], sham_keep=[1.0], sham_reset=[1.0])
    >>> objective_gain(static, adapted)
    array([0.25])
    """
    if static.real_keep.shape != adapted.real_keep.shape:
        raise LarcError(
            f"the objectives have cells of shape {static.real_keep.shape} and "
            f"{adapted.real_keep.shape}; evaluate both on the same rows."
        )
    return static.real_keep - adapted.real_keep
