"""Nested equal weights: every child of a node carries an equal part of that node's weight.

One row is one prediction. Averaging with these weights is averaging rows within the innermost
level, those averages within the next, and so on out to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from larc.errors import LarcError
from larc.evaluation.checks import Floats, checked_weights, finite_array

Labels = Iterable[Hashable]


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Per-group averages, ready to be resampled.

    Parameters
    ----------
    families, groups
        The labels of each group.
    values
        One row per group, one column per measured quantity.
    """

    families: tuple[Hashable, ...]
    groups: tuple[Hashable, ...]
    values: Floats


def nested_weights(*levels: Labels) -> Floats:
    """Weigh rows equally within the innermost level, and each level equally within the one outside.

    A label names a node only inside its parent: commit ``a`` of two repositories is two commits.

    Parameters
    ----------
    levels
        For each level, outermost first, one label per row.

    Returns
    -------
    ndarray
        One weight per row; they sum to one.

    Examples
    --------
    Two repositories weigh a half each, however many commits and jobs they hold:

    >>> repositories = ["x", "y", "y", "y"]
    >>> commits = ["a", "a", "b", "b"]
    >>> nested_weights(repositories, commits)
    array([0.5  , 0.25 , 0.125, 0.125])

    With job identifiers as the only level, every job weighs the same:

    >>> nested_weights([11, 12, 13, 14])
    array([0.25, 0.25, 0.25, 0.25])
    """
    if not levels:
        raise LarcError("no level was given; give one label per row, outermost level first.")
    columns = [list(level) for level in levels]
    rows = len(columns[0])
    if rows == 0:
        raise LarcError("no row was given; give at least one label per level.")
    nodes = np.zeros(rows, dtype=np.intp)
    weight_of_node = np.ones(1)
    for labels in columns:
        nodes, parents, _ = _split(nodes, labels)
        children = np.bincount(parents)
        weight_of_node = weight_of_node[parents] / children[parents]
    return weight_of_node[nodes] / np.bincount(nodes)[nodes]


def nested_mean(values: ArrayLike, *levels: Labels) -> Floats:
    """Average rows within the innermost level, those averages within the next, out to the whole.

    But for rounding this is averaging with :func:`nested_weights`. Every sum is exact and rounded
    once, so the order of the rows changes no bit of the result.

    Parameters
    ----------
    values
        One row of columns per row.
    levels
        For each level, outermost first, one label per row. Without one, all rows weigh equally.

    Returns
    -------
    ndarray
        One mean per column.

    Examples
    --------
    >>> nested_mean([[8.0], [4.0], [1.0], [3.0]], ["x", "y", "y", "y"], ["a", "a", "b", "b"])
    array([5.5])
    """
    table = finite_array(values, "the array of values", ndim=2)
    nodes = np.zeros(len(table), dtype=np.intp)
    owners: list[NDArray[np.intp]] = []
    for labels in levels:
        nodes, parents, _ = _split(nodes, list(labels))
        owners.append(parents)
    for places in (nodes, *reversed(owners)):
        members = np.split(table[np.argsort(places)], np.cumsum(np.bincount(places))[:-1])
        table = np.array(
            [[math.fsum(column) / len(column) for column in rows.T.tolist()] for rows in members]
        )
    means: Floats = table[0]
    return means


def weighted_mean(values: ArrayLike, weights: ArrayLike) -> Floats:
    """Average over the last axis with weights that sum to one.

    A matrix product would add in an order that depends on the processor, and a figure that lies
    between two roundings would differ from one machine to the next. Here each product is rounded,
    and their sum is exact and rounded once.

    Parameters
    ----------
    values
        One value per row along the last axis.
    weights
        One weight per row.

    Examples
    --------
    >>> weighted_mean([[8.0, 4.0, 2.0], [1.0, 3.0, 5.0]], [0.5, 0.25, 0.25])
    array([5.5, 2.5])
    """
    array = finite_array(values, "the array of values")
    rows = array.shape[-1] if array.ndim else 1
    means: Floats = np.apply_along_axis(math.fsum, -1, array * checked_weights(weights, rows))
    return means


def group_weights(families: Labels, groups: Labels) -> Floats:
    """Weigh rows equally within groups, groups within families, and families equally.

    Examples
    --------
    >>> group_weights(["sum", "sum", "sum", "list"], ["g", "g", "h", "g"])
    array([0.125, 0.125, 0.25 , 0.5  ])
    """
    return nested_weights(families, groups)


def restrict_weights(weights: ArrayLike, keep: ArrayLike, within: Labels | None = None) -> Floats:
    """Drop rows, and scale the others so that each outer node keeps the weight it had.

    This measures a part of a queue with the weights of the whole queue: a group of which only
    some rows are kept counts in proportion to them, and no outer node gains on another.

    Parameters
    ----------
    weights
        One weight per row of the whole.
    keep
        One boolean per row: whether it stays.
    within
        One label per row: the outer level whose totals are preserved. Without it, only the overall
        total is.

    Returns
    -------
    ndarray
        One weight per row of the whole, zero where the row was dropped.

    Examples
    --------
    >>> repositories = ["x", "y", "y", "y"]
    >>> weights = nested_weights(repositories, ["a", "b", "c", "c"])
    >>> weights
    array([0.5  , 0.25 , 0.125, 0.125])
    >>> restrict_weights(weights, [True, True, True, False], within=repositories).round(4)
    array([0.5   , 0.3333, 0.1667, 0.    ])
    """
    mask = np.asarray(keep)
    if mask.ndim != 1 or mask.dtype != np.bool_:
        raise LarcError("the rows to keep are not marked by booleans; give one boolean per row.")
    whole = checked_weights(weights, rows=len(mask))
    labels: list[Hashable] = [0] * len(mask) if within is None else list(within)
    nodes, _, names = _split(np.zeros(len(mask), dtype=np.intp), labels)
    before = np.bincount(nodes, weights=whole)
    after = np.bincount(nodes, weights=whole * mask)
    lost = (after == 0) & (before > 0)
    if lost.any():
        # Scaling cannot bring back a node with nothing left, and giving its weight to the others
        # would be a different measure.
        name = names[int(np.flatnonzero(lost)[0])]
        raise LarcError(f"no weight is kept within {name!r}; keep a row of it or leave it out.")
    scale = np.divide(before, after, out=np.zeros_like(before), where=after > 0)
    restricted: Floats = whole * mask * scale[nodes]
    return restricted


def group_means(values: ArrayLike, families: Labels, groups: Labels) -> GroupMeans:
    """Average the rows of each group.

    Groups come out ordered by the text of their labels, so that the order in which predictions
    were saved cannot change what a seeded bootstrap draws.

    Parameters
    ----------
    values
        One value per row, or one row of columns per row.
    families, groups
        One label per row.

    Examples
    --------
    >>> means = group_means([4.0, 1.0, 3.0], families=["sum", "list", "list"], groups=[7, 5, 5])
    >>> means.families, means.groups
    (('list', 'sum'), (5, 7))
    >>> means.values
    array([[2.],
           [4.]])
    """
    array = finite_array(values, "the array of values")
    if array.ndim not in (1, 2):
        raise LarcError(f"values have {array.ndim} dimensions; give rows, or rows by columns.")
    table = array.reshape(len(array), -1)
    outer, _, family_names = _split(np.zeros(len(table), dtype=np.intp), list(families))
    nodes, parents, group_names = _split(outer, list(groups))
    family_of_group = [family_names[parent] for parent in parents]
    order = sorted(
        range(len(group_names)),
        key=lambda node: (str(family_of_group[node]), str(group_names[node])),
    )
    sums = np.zeros((len(group_names), table.shape[1]))
    np.add.at(sums, nodes, table)
    means = sums / np.bincount(nodes)[:, None]
    return GroupMeans(
        families=tuple(family_of_group[node] for node in order),
        groups=tuple(group_names[node] for node in order),
        values=means[order],
    )


def _split(
    parents: NDArray[np.intp], labels: list[Hashable]
) -> tuple[NDArray[np.intp], NDArray[np.intp], list[Hashable]]:
    """Divide each node by label: the new node of each row, and each new node's parent and label."""
    if len(labels) != len(parents):
        raise LarcError(
            f"{len(labels)} labels were given for {len(parents)} rows; give one label per row."
        )
    node_of: dict[tuple[int, Hashable], int] = {}
    try:
        nodes = [
            node_of.setdefault(key, len(node_of))
            for key in zip(parents.tolist(), labels, strict=True)
        ]
    except TypeError as error:
        raise LarcError(
            "a label cannot name a group; give strings, numbers or tuples of them."
        ) from error
    names = [label for _, label in node_of]
    # A missing value differs from itself, so each of its rows would silently become a group.
    if any(name != name for name in names):
        raise LarcError("a label is not a number; give every row a label.")
    owners = np.array([parent for parent, _ in node_of], dtype=np.intp)
    return np.array(nodes, dtype=np.intp), owners, names
