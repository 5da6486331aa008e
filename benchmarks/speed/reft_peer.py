"""pyreft: LoReFT on what enters layer 0 is our residual where B has orthonormal columns.

LoReFT is ``h + R^T (W h + b - R h)``; with ``R = B^T``, ``W = R + A`` and ``b = 0`` that is
``h + B A h``. Its states come one after the other: an intervention belongs to a model, not a row.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.peers import need, rows_of
from benchmarks.speed.setting import Setting
from larc.questions import EncodedQuestion
from larc.residual import Factors


class ReftStates:
    """Private states as LoReFT interventions that are put into one model in turn."""

    def __init__(self, setting: Setting, states: Sequence[Factors]) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # it says what else could be installed
            pyreft = need("pyreft")
        rank, width = states[0].rank, states[0].width

        def loreft() -> Any:
            return pyreft.LoreftIntervention(
                embed_dim=width, low_rank_dimension=rank, dtype=torch.float32
            )

        representation = {"layer": 0, "component": "block_input", "low_rank_dimension": rank}
        config = pyreft.ReftConfig(representations=[{**representation, "intervention": loreft()}])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old package on new ones
            self.model: Any = pyreft.get_reft_model(setting.own_model(), config, set_device=False)
        (self.key,) = self.model.interventions
        self.interventions = []
        for state in states:
            intervention = loreft()
            with torch.no_grad():
                intervention.load_state_dict(
                    {
                        "weight": state.B.T + state.A,
                        "bias": torch.zeros(rank),
                        "rotate_layer": state.B,
                    }
                )
            self.interventions.append(intervention.eval())

    def read_in_turn(self, questions: Sequence[EncodedQuestion]) -> list[Tensor]:
        """Return each state's energies on its question, one intervention after the other."""
        energies = []
        with torch.no_grad():
            for intervention, question in zip(self.interventions, questions, strict=True):
                self.model.interventions[self.key] = intervention
                rows = rows_of([question])
                _, output = self.model(rows.inputs, unit_locations=None)
                energies += rows.energies(output.logits)
        return energies
