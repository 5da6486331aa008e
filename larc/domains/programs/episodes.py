"""Episodes: a group, the recipe that is right, and the inputs it is learned from and judged on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from larc.domains.programs.groups import ENTRY_RANGE, Group
from larc.domains.programs.prompts import feedback_prompt, policy_prompt
from larc.domains.programs.recipes import FAMILIES, Family, Value, checked_target, losses
from larc.domains.programs.streams import INPUTS, integer, shuffled, words
from larc.errors import LarcError
from larc.tasks import Task

SUPPORT_INPUTS = 4
QUERY_INPUTS = 20
NUMBERS = range(-48, 49)
LIST_LENGTH = 6


@dataclass(frozen=True)
class ProgramEpisode:
    """One choice among the four programs of a group, where one of them made the outputs.

    Losses are computed when they are asked for: a query stays unopened until ``query_losses`` is
    read.

    Parameters
    ----------
    group
        The parameter group, with its candidates.
    target
        The index of the program that is right. It appears in no prompt.
    support_inputs
        The inputs whose losses are the feedback.
    query_inputs
        Other inputs, whose losses judge what was learned.

    Examples
    --------
    >>> episode = ProgramEpisode(Group("arithmetic", (2, 3)), 0, (2, 24, -20, 5), (3,))
    >>> episode.name
    'arithmetic/2,3/0'
    >>> episode.support_losses, episode.query_losses
    ((0.0, 1.0, 0.5, 0.5), (0.0, 1.0, 0.0, 0.0))
    """

    group: Group
    target: int
    support_inputs: tuple[Value, ...]
    query_inputs: tuple[Value, ...]

    @property
    def name(self) -> str:
        """A stable name: the group's, and the target."""
        return f"{self.group.name}/{self.target}"

    @property
    def prompt(self) -> str:
        """The public question, without feedback."""
        return policy_prompt(self.group)

    @property
    def feedback_prompt(self) -> str:
        """The question with the support losses written in it, for the text baseline."""
        return feedback_prompt(self.group, self.support_losses)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The four program texts in their fixed order."""
        return self.group.candidates

    @property
    def support_losses(self) -> tuple[float, ...]:
        """Each candidate's error fraction on the support inputs."""
        return losses(self.group.programs, self.target, self.support_inputs)

    @property
    def query_losses(self) -> tuple[float, ...]:
        """Each candidate's error fraction on the query inputs."""
        return losses(self.group.programs, self.target, self.query_inputs)


def build_episode(
    group: Group, target: int, *, support: int = SUPPORT_INPUTS, final_evaluation: bool = False
) -> ProgramEpisode:
    """Return the episode of one group and target, the same one every time.

    Parameters
    ----------
    group
        The parameter group.
    target
        The index of the recipe that makes the outputs.
    support
        How many support inputs there are. Fewer are the first of the four, more come after them,
        and the query is the same for any number, so settings compare on paired episodes.
    final_evaluation
        Reserved groups are built only when this is true: once they have been looked at, nothing
        held out is left.

    Examples
    --------
    >>> from larc.domains.programs import split_groups
    >>> group = split_groups("training")[0]
    >>> episode, short = build_episode(group, 2), build_episode(group, 2, support=1)
    >>> len(episode.support_inputs), len(episode.query_inputs)
    (4, 20)
    >>> short.support_inputs == episode.support_inputs[:1]
    True
    >>> short.query_inputs == episode.query_inputs
    True
    """
    checked_target(target, len(group.programs))
    if group.split == "reserved" and not final_evaluation:
        raise LarcError(
            f"{group.name} is reserved for the final evaluation; "
            "use another split, or pass final_evaluation=True when this is that evaluation."
        )
    # Numbers run out where lists do not, and every input of an episode is a different one.
    most = len(NUMBERS) - QUERY_INPUTS
    if support < 1 or (group.family == "arithmetic" and support > most):
        raise LarcError(
            f"{support} support inputs cannot be drawn; "
            f"give at least 1, and at most {most} for an arithmetic group."
        )
    stream = words(INPUTS, FAMILIES.index(group.family), *group.pair, target)
    inputs = distinct_inputs(group.family, stream)
    first = tuple(islice(inputs, SUPPORT_INPUTS))
    query = tuple(islice(inputs, QUERY_INPUTS))
    # Support beyond the usual four is drawn last, so that asking for it leaves the query alone.
    more = tuple(islice(inputs, max(support - SUPPORT_INPUTS, 0)))
    return ProgramEpisode(group, target, (*first[:support], *more), query)


def build_episodes(
    groups: Iterable[Group], *, support: int = SUPPORT_INPUTS, final_evaluation: bool = False
) -> tuple[ProgramEpisode, ...]:
    """Return four episodes a group, one for each target recipe, in the order of the groups.

    The settings are those of :func:`build_episode`.

    Examples
    --------
    >>> from larc.domains.programs import split_groups
    >>> len(build_episodes(split_groups("development")))
    64
    >>> build_episodes(split_groups("reserved"))
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: ... is reserved for the final evaluation; use another split, or pass
    final_evaluation=True when this is that evaluation.
    """
    return tuple(
        build_episode(group, target, support=support, final_evaluation=final_evaluation)
        for group in groups
        for target in range(len(group.programs))
    )


def to_task(episode: ProgramEpisode, *, with_query: bool) -> Task:
    """Return the episode as a task, its query open or still closed.

    Parameters
    ----------
    episode
        The episode.
    with_query
        Whether the query losses are computed and handed over. Leave them closed until the
        predictions they will judge have been saved.

    Examples
    --------
    >>> episode = build_episode(Group("arithmetic", (2, 3)), target=0)
    >>> task = to_task(episode, with_query=False)
    >>> task.group, task.family, task.query
    ('arithmetic/2,3', 'arithmetic', None)
    """
    return Task(
        prompt=episode.prompt,
        candidates=episode.candidates,
        support=episode.support_losses,
        query=episode.query_losses if with_query else None,
        group=episode.group.name,
        family=episode.group.family,
    )


def distinct_inputs(family: Family, stream: Iterator[int]) -> Iterator[Value]:
    """Yield different inputs of a family, drawn from a stream.

    Examples
    --------
    >>> from larc.domains.programs.streams import words
    >>> len(set(islice(distinct_inputs("list", words(INPUTS, 1)), 5)))
    5
    """
    if family == "arithmetic":
        yield from shuffled(NUMBERS, stream)
        return
    seen: set[Value] = set()
    while True:
        entries = tuple(integer(*ENTRY_RANGE, stream) for _ in range(LIST_LENGTH))
        if entries not in seen:
            seen.add(entries)
            yield entries
