"""What the study of private conventions decides."""

from __future__ import annotations

from dataclasses import dataclass

from larc.errors import LarcError
from larc.runs.settings import ModelSettings
from larc.settings import setting

SYNTHETIC = "synthetic"
#: Ways to train a start: on labels alone, and through the stream by two gradients.
OBJECTIVES = ("static", "first-order", "exact")
SCORES = ("mean", "sum", "prior")


@dataclass(frozen=True)
class StreamsSettings(ModelSettings):
    """What decides the results of a study of private conventions."""

    boundary: int = setting(26, "Where the residual is: 0 the input, k before layer k.", least=0)
    prompt_limit: int = setting(512, "The most tokens of a prompt.", least=1)
    data: tuple[str, ...] = setting(
        (), "Files of streams, a data set each; or synthetic, for made-up ones."
    )
    prompt: str = setting(
        "{text}\nAnswer: ", "How a question is put: {text}, and {candidates} if they are listed."
    )
    delay: str = setting(
        "0",
        "When a label arrives: so many questions late, Ns for seconds of the data's own clock, or "
        "data for its own arrival times.",
    )
    looked_at: tuple[str, ...] = setting(
        (), "Streams that were looked at before: they are for validation, never for test."
    )
    validation_share: float = setting(0.25, "The share of the streams that choices are made on.")
    test_share: float = setting(0.35, "The share of the streams that are kept for the test.")
    training_streams: int = setting(0, "The most training streams; 0 for all.", least=0)
    training_questions: int = setting(0, "The most questions of each; 0 for all.", least=0)
    validation_streams: int = setting(10, "The most validation streams; 0 for all.", least=0)
    validation_questions: int = setting(80, "The most questions of each; 0 for all.", least=0)
    test_streams: int = setting(16, "The most test streams; 0 for all.", least=0)
    test_questions: int = setting(80, "The most questions of each; 0 for all.", least=0)
    costly_streams: int = setting(
        8, "How many test streams LoRA by PEFT is trained on, the first ones.", least=0
    )
    cost_questions: int = setting(
        8, "Questions of a validation stream that the cost of everything is measured on.", least=1
    )
    lora_layer: int = setting(20, "LoRA adapts this layer and all above it.", least=0)
    lora_updates: int = setting(60, "Updates of its fit to the training streams.", least=1)
    lora_fit_rate: float = setting(1e-3, "Of the AdamW of that fit.")
    lora_rates: tuple[float, ...] = setting(
        (3e-4, 3e-3), "Rates of its online AdamW to choose among on validation streams."
    )
    side_by_side: int = setting(8, "Streams that share physical batches.", least=1)
    first: int = setting(20, "How many first questions of a stream are scored apart.", least=1)
    words: int = setting(8192, "Indices that words and pairs of words are hashed to.", least=1)
    cases: int = setting(4, "How many recent cases a prompt with cases shows.", least=1)
    objectives: tuple[str, ...] = setting(
        OBJECTIVES, "How starts are trained: static, first-order, exact."
    )
    scores: tuple[str, ...] = setting(
        ("prior", "mean"),
        "How candidates are scored: against their prior, by the mean, or by the sum. The static "
        "start is trained with each, the others with the first.",
    )
    updates: int = setting(200, "Outer updates of the static training.", least=1)
    batch: int = setting(16, "Labels in an outer update of the static training.", least=1)
    learning_rate: float = setting(5e-3, "Of the outer AdamW of the static training.")
    stream_updates: int = setting(
        60, "Further outer updates of a training through the stream.", least=1
    )
    stream_batch: int = setting(2, "Windows in one of these.", least=1)
    stream_rate: float = setting(2e-3, "Of the outer AdamW of these.")
    stream_rule: str = setting("sgd:0.05", "The update rule that is trained through.")
    stream_step_rate: float = setting(
        0.0, "Learn the steps of that rule with the start, at this rate; 0 for not at all."
    )
    rates_fall: bool = setting(
        False, "Let the rates of both trainings fall to zero by their last update.", later=True
    )
    window: int = setting(24, "How many questions a window has.", least=2)
    rules: tuple[str, ...] = setting(
        ("sgd:0.01", "sgd:0.02", "sgd:0.05"), "Update rules to choose among on validation streams."
    )
    trials_only: bool = setting(
        False, "Stop when the choice is on record, before test streams are opened.", free=True
    )
    offset_sizes: tuple[float, ...] = setting(
        (0.1, 0.4), "Steps of private offsets to choose among; a state may do without."
    )
    start: str = setting(
        "", "A package or a finished run of this study whose states are applied, untrained further."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_among("objectives", self.objectives, OBJECTIVES)
        check_among("scores", self.scores, SCORES)
        if not self.rules or not self.offset_sizes:
            raise LarcError("no rule was given; name one or more with --rules and --offset-sizes.")
        if not all(rule.startswith("sgd:") for rule in self.rules):
            raise LarcError("private offsets are learned by sgd; give --rules such as sgd:0.02.")
        shares = (self.validation_share, self.test_share)
        if not all(0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise LarcError(
                "the shares of validation and test streams are above 0 and leave some for training."
            )
        if "{text}" not in self.prompt:
            raise LarcError(f"--prompt {self.prompt!r} does not say where the text goes: {{text}}.")
        seconds = self.delay.removesuffix("s")
        if self.delay != "data" and not (seconds.isascii() and seconds.isdigit()):
            raise LarcError(
                f"--delay {self.delay!r} is no delay; give a number of questions such as 10, "
                "seconds such as 3600s, or data."
            )


def check_among(name: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Refuse names that are none of the known ones, or none at all."""
    wrong = [one for one in given if one not in known]
    if wrong or not given or len(set(given)) < len(given):
        raise LarcError(
            f"--{name} {','.join(given)} was given; give some of {', '.join(known)}, each once."
        )


PRESETS = {
    # Three seeds of what is asked about: one to two hours of one core for each file, where the
    # processor has instructions for bfloat16. The caps were declared before a test stream was
    # opened, and are the same for all that is compared; LoRA, which costs most, has half of the
    # streams. Its fit has as many labels as the static start.
    "paper": StreamsSettings(
        dtype="bfloat16",
        threads=1,
        rank=16,
        validation_questions=30,
        test_streams=12,
        test_questions=60,
        costly_streams=6,
        lora_updates=240,
        side_by_side=12,
        updates=240,
        stream_updates=30,
        stream_rule="sgd:0.03",
        stream_step_rate=0.1,
        rates_fall=True,
        rules=("sgd:0.02", "sgd:0.05"),
        offset_sizes=(0.2, 0.4),
    ),
    # One seed and fewer of everything: a quarter of an hour on two cores.
    "quick": StreamsSettings(
        seeds=(2026092811,),
        objectives=("static", "first-order"),
        training_streams=12,
        training_questions=80,
        validation_streams=4,
        validation_questions=30,
        test_streams=6,
        test_questions=40,
        costly_streams=2,
        cost_questions=4,
        lora_updates=10,
        lora_rates=(1e-3,),
        updates=60,
        stream_updates=12,
        rules=("sgd:0.02", "sgd:0.05"),
        offset_sizes=(0.4,),
    ),
    # Made-up streams on a random model: every step in seconds, and nothing to be learned from it.
    "smoke": StreamsSettings(
        data=(SYNTHETIC,),
        substrate="tiny",
        boundary=2,
        threads=1,
        seeds=(2026092811, 2026092812),
        validation_streams=2,
        validation_questions=8,
        test_streams=3,
        test_questions=10,
        costly_streams=1,
        cost_questions=3,
        lora_layer=2,
        lora_updates=2,
        first=4,
        words=512,
        cases=2,
        updates=3,
        batch=4,
        stream_updates=2,
        window=6,
        rules=("sgd:0.5", "sgd:1.0"),
        stream_rule="sgd:0.5",
        stream_step_rate=0.1,
        prompt_limit=1024,
        candidate_limit=64,
    ),
}
