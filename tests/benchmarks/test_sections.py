"""The other sections, end to end on the tiny model."""

import json

import pytest

from benchmarks.speed import (
    boundary,
    delayed,
    exact,
    experts,
    growth,
    limit,
    live,
    memory,
    precision,
    replay,
    session,
    states,
)
from benchmarks.speed.running import SECTIONS, measure
from benchmarks.speed.table import Measured, Table
from larc.cli import main
from larc.domains.ci.synthetic import synthetic_jobs


def test_sections_are_numbered_in_order_and_named_once():
    titles = [section.title for section, _ in SECTIONS]
    assert [title.split(".")[0] for title in titles] == [str(n + 1) for n in range(13)]
    assert len({section.name for section, _ in SECTIONS}) == 13


def test_the_machine_limit_counts_what_is_needed(setting):
    work, head = limit.work_of(setting), limit.head_of(setting)
    rows = [setting.ask(task).packed.rows[0] for task in setting.pair]
    positions = sum(len(row.tokens) for row in rows)
    setting.substrate.ledger.clear()
    measured = limit.rows(setting)
    per_read = setting.substrate.ledger.total("head")
    # tiny: width 32, 4 heads of 8, 2 key-value heads, 64 within the MLP, 4 layers, 258 tokens
    per_position = 4 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64)
    heads = per_read.effective // per_read.calls
    assert head.total == 2 * heads * 32 * 258
    assert work.multiplications == 2 * positions * per_position + head.total
    above = limit.work_of(setting, 3)
    assert above.multiplications == 2 * positions * per_position // 4 + head.total
    seen = sum(int(row.visible.sum()) for row in rows)
    assert work.total - work.multiplications == 4 * seen * 32 * 4
    assert all(0 < row.ratio.value < 1 for row in measured)


def test_boundaries_and_memory_are_measured(setting):
    above = [row.note for row in boundary.rows(setting)]
    assert above == ["3 of 4 layers above", "2 of 4 layers above", "1 of 4 layers above"] * 2
    less, _ = memory.rows(setting)
    assert less.ratio.value < 0.9
    assert setting.substrate.checkpointing is False


def test_precisions_are_measured_side_by_side(setting):
    measured = precision.rows(setting)
    layouts = ["one row shared", "one row per candidate"]
    assert [row.case for row in measured] == [
        f"{kind}, {layout}" for kind in ("read", "update") for layout in layouts
    ]
    assert all(precision.instructions() in row.note for row in measured)
    probability, gradient = measured[0].note.split()[3], measured[2].note.split()[5]
    # The tiny model is made in bfloat16 whole, its rotations too: farther off than a loaded one.
    assert float(probability.strip(";")) < 0.1
    assert float(gradient.strip(";")) > 0.95


def test_growth_in_memory_is_linear_where_it_should_be(setting):
    ratios = {(row.case, row.of): row.ratio.value for row in growth.rows(setting)}
    memory = {case: value for (case, of), value in ratios.items() if "memory" in of}
    # A state is its own factors and nothing else.
    assert memory["begin and hold private states"] == pytest.approx(1, abs=0.05)
    assert memory["update, episodes in a batch"] == pytest.approx(1, abs=0.15)
    # Checkpointed rows keep a mask of the square of their length, and little besides.
    assert 1 < memory["update, sequence length, checkpointed"] < 2
    assert setting.substrate.checkpointing is False
    assert len(ratios) == 12


def test_the_exact_gradient_is_compared_with_the_same_gradient(setting):
    rows = exact.rows(setting)
    assert list(dict.fromkeys(row.case for row in rows)) == list(exact.NAMES.values())
    assert rows[3].note.endswith("MB for the exact")
    assert rows[1].ratio.value < 1  # a first-order gradient keeps less


def test_live_questions_are_compared_at_equal_answers(setting):
    rows = live.rows(setting)
    assert [row.case for row in rows] == [
        "alone",
        "in shared batches, nothing reused",
        "many streams, one after the other",
    ]
    assert len(setting.substrate.beginnings) == 0  # what was there before is there again


def test_every_expert_is_timed_on_the_same_questions(setting):
    measured = experts.rows(setting)
    names = ["HEDGE4", "FREQUENCIES", "LAST", "WORDS", "READOUT", "NEAREST"]
    assert [row.case for row in measured] == names
    assert all(row.ratio.value > 0 for row in measured)


def test_a_private_state_is_its_numbers_and_little_more(setting):
    *timed, held = states.rows(setting)
    assert [row.case.partition(",")[0] for row in timed] == ["begin", "read", "update", "save"] * 2
    assert 1 <= held.ratio.value < 6  # of 1,024 bytes on the tiny model


def test_what_a_session_costs_is_what_the_model_does_not(setting):
    own, *saved = session.rows(setting)
    assert 0 < own.ratio.value < 1
    assert [row.case for row in saved] == [f"a save, {n} labels remembered" for n in (1, 10)]
    ways = [*setting.substrate._below.values(), *setting.substrate._above.values()]
    assert "timed" not in {run.__name__ for run in ways}  # the model is as it was


@pytest.mark.parametrize(
    ("losses", "needed"),
    [
        (delayed.hedge_losses, ()),
        (delayed.river_losses, ("river",)),
        (delayed.wabbit_losses, ("vowpalwabbit",)),
    ],
)
def test_learners_without_a_model_learn_something_from_the_same_rows(losses, needed, peer):
    peer(*needed)
    jobs = synthetic_jobs(300, seed=1)
    job_losses = losses(jobs)
    assert len(job_losses) == len(jobs)
    assert sum(job_losses) / len(job_losses) < 0.375  # what saying 1/4 each time would give


def test_replay_compares_equal_answers(setting, peer):
    peer("river", "vowpalwabbit")
    first, late, *others = replay.rows(setting)
    assert first.note == late.note == "2 jobs, 7 paths"
    assert late.case == "one path after the other, before layer 3"
    assert all(isinstance(row, Measured) for row in others)


def test_the_table_is_printed_and_saved(tmp_path, capsys):
    out = tmp_path / "table.md"
    arguments = ["bench", "--quick", "--substrate", "tiny", "--only", "boundary", "--out", str(out)]
    assert main(arguments) == 0
    assert "| read before layer 2 | **" in capsys.readouterr().out
    assert "Measured on " in out.read_text()
    saved = json.loads(out.with_suffix(".json").read_bytes())
    assert [section["name"] for section in saved["sections"]] == ["boundary"]
    assert len(saved["sections"][0]["rows"][0]["numbers"]["seconds"]) == 2
    assert Table.read(out.with_suffix(".json")).to_markdown() == out.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "speed"], "there is no section 'speed'"),
        (["--out", "table.txt"], "is no Markdown file"),
        (["--repetitions", "0"], "measures nothing"),
    ],
)
def test_what_cannot_be_measured_is_refused_first(arguments, says, capsys):
    assert main(["bench", "--substrate", "tiny", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_a_table_says_what_is_under_way_and_on_what_it_was_measured(setting):
    messages: list[str] = []
    table = measure(setting, ["limit"], messages.append)
    assert messages[0] == "5. The machine's limit …"
    assert table.facts["substrate"] == "tiny"
    assert table.facts["clock"] == "wall"
