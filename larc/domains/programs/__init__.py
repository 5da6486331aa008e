"""The program-selection task: find which of four programs made the outputs.

Each parameter group gives four short programs and four episodes, one for each program that may be
the right one. An executor returns how often each candidate was wrong on a few support inputs; the
choice is judged on twenty others. Nothing here knows of models.

Examples
--------
>>> episode = build_episode(Group("arithmetic", (2, 3)), target=2)
>>> symbolic_choice(episode.support_losses)
2
"""

from larc.domains.programs.episodes import ProgramEpisode, build_episode, build_episodes, to_task
from larc.domains.programs.groups import (
    SPLIT_SIZES,
    Group,
    Pair,
    Split,
    active_pairs,
    historical_pairs,
    remaining_pairs,
    split_groups,
)
from larc.domains.programs.prompts import feedback_prompt, policy_prompt
from larc.domains.programs.recipes import (
    CLIP_BOUNDS,
    FAMILIES,
    Family,
    Operation,
    Program,
    Value,
    arithmetic_programs,
    list_programs,
    losses,
    render,
    run,
)
from larc.domains.programs.symbolic import symbolic_choice

__all__ = [
    "CLIP_BOUNDS",
    "FAMILIES",
    "SPLIT_SIZES",
    "Family",
    "Group",
    "Operation",
    "Pair",
    "Program",
    "ProgramEpisode",
    "Split",
    "Value",
    "active_pairs",
    "arithmetic_programs",
    "build_episode",
    "build_episodes",
    "feedback_prompt",
    "historical_pairs",
    "list_programs",
    "losses",
    "policy_prompt",
    "remaining_pairs",
    "render",
    "run",
    "split_groups",
    "symbolic_choice",
    "to_task",
]
