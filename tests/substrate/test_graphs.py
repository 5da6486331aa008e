"""The scoring path above a boundary is one graph: compilers meet no break in it."""

import pytest
import torch

import larc
from larc.questions import ask
from larc.residual import Factors, apply_residual
from larc.substrate import views
from larc.substrate.rows import attention_inputs
from tests.questions import random_factors


@pytest.fixture(scope="module")
def tiny():
    """A model of this module's own: the hooks that `active` leaves on one look at their context,
    and there a graph breaks."""
    return larc.load_substrate("tiny")


@pytest.fixture(scope="module", params=[0, 2])
def scoring(request, tiny):
    """What is computed above a boundary for one question, and what it is computed from."""
    boundary = request.param
    question = ask(tiny, "Which way? ", ["up", "down"])
    (row,) = question.packed.rows
    run = views.above(tiny.model, boundary)
    hidden = tiny.activations([row], boundary)
    inputs = attention_inputs([row], hidden.shape[1], tiny.dtype, tiny.device)
    places = torch.tensor([len(question.prompt) - 1, len(question.prompt)])
    factors = random_factors(tiny, 1)

    def score(hidden, A, B, places, mask, positions):
        moved = apply_residual(hidden, Factors(A, B))
        return run(moved, places, attention_mask=mask, position_ids=positions)

    given = (hidden, factors.A, factors.B, places, *inputs.values())
    assert list(inputs) == ["attention_mask", "position_ids"]
    return score, given


def test_it_is_traced_without_a_break(scoring):
    score, given = scoring
    with torch.no_grad():
        explained = torch._dynamo.explain(score)(*given)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0), explained.break_reasons


def test_a_graph_of_all_of_it_computes_the_same(scoring):
    score, given = scoring
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(score, backend="eager", fullgraph=True)
        assert torch.equal(compiled(*given), score(*given))


def test_it_is_exported(scoring, tiny):
    score, given = scoring

    class Scoring(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = tiny.model

        def forward(self, *given):
            return score(*given)

    with torch.no_grad():
        exported = torch.export.export(Scoring(), given, strict=False)
        torch.testing.assert_close(exported.module()(*given), score(*given), atol=1e-6, rtol=0)


def test_states_are_arguments_of_the_graph(scoring):
    """One compiled graph serves every state: it is not compiled again for the next."""
    score, given = scoring
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(score, backend="eager", fullgraph=True)
        compiled(*given)
        with torch._dynamo.config.patch(error_on_recompile=True):
            other = (given[0], 2 * given[1], 3 * given[2], *given[3:])
            assert torch.equal(compiled(*other), score(*other))
