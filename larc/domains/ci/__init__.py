"""Delayed feedback in continuous integration, without a model: jobs, their order, and baselines.

A history of jobs is read and accounted for (:func:`read_jobs`), put into the order in which its
labels became known (:func:`order_events`), and predicted by cheap experts (:class:`Hedge4`,
:func:`baseline`). Prompts and the case memory serve a language model that predicts the same jobs.
"""

from larc.domains.ci.accounting import Accounting, Example
from larc.domains.ci.baseline import PREDICTORS, BaselineReport, baseline, replay
from larc.domains.ci.experts import (
    EXPERTS,
    Arrival,
    Hedge4,
    HedgeForecast,
    HedgeSettings,
    half_brier,
    mixture_weights,
)
from larc.domains.ci.hedge_replay import HedgeReplay, Prediction, hedge_after
from larc.domains.ci.jobs import LABELS, Job, LeftOut, Observation, Reason, job_from_row, label_of
from larc.domains.ci.memory import Case, CaseMemory, MemoryLimits, case_of
from larc.domains.ci.prompts import ci_prompt
from larc.domains.ci.readers import read_jobs
from larc.stream.queue import Arrive, Ask, order_events, split_streams

__all__ = [
    "EXPERTS",
    "LABELS",
    "PREDICTORS",
    "Accounting",
    "Arrival",
    "Arrive",
    "Ask",
    "BaselineReport",
    "Case",
    "CaseMemory",
    "Example",
    "Hedge4",
    "HedgeForecast",
    "HedgeReplay",
    "HedgeSettings",
    "Job",
    "LeftOut",
    "MemoryLimits",
    "Observation",
    "Prediction",
    "Reason",
    "baseline",
    "case_of",
    "ci_prompt",
    "half_brier",
    "hedge_after",
    "job_from_row",
    "label_of",
    "mixture_weights",
    "order_events",
    "read_jobs",
    "replay",
    "split_streams",
]
