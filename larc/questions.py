"""From texts to a question: a prompt and its candidates as tokens, and the rows they are put in.

The candidates of one prompt share a row: the prompt once, then every candidate, each seeing the
prompt and itself, with positions that restart after the prompt. A model that cannot take such a
mask gets one plain row per candidate. Both are only ways to lay out rows; the rest is common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from larc.checks import text, whole_number
from larc.errors import LarcError
from larc.feedback import checked_candidates
from larc.substrate.frozen import Substrate
from larc.substrate.rows import Row

#: The candidates of a question as token ids.
Tokens = tuple[tuple[int, ...], ...]
# Tokens are small; the substrate keeps those of this many questions.
_KEPT_QUESTIONS = 4096
ADVICE = {
    "prompt": "shorten it or raise Limits(prompt=...), --prompt-limit in a study",
    "candidate": "shorten it or raise Limits(candidate=...), --candidate-limit in a study",
}


@dataclass(frozen=True)
class Limits:
    """The most tokens a prompt and a candidate with its end of sequence may have.

    A longer text is refused, never cut.
    """

    prompt: int = 384
    candidate: int = 32

    def __post_init__(self) -> None:
        for name in ("prompt", "candidate"):
            value = whole_number(getattr(self, name), f"the limit of a {name}", least=1)
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class EncodedQuestion:
    """A prompt and its candidates as token ids; each candidate ends with the end of sequence.

    ``stem`` is the prompt's last line by itself, where there are others before it.
    """

    prompt: tuple[int, ...]
    candidates: tuple[tuple[int, ...], ...]
    stem: tuple[int, ...] = ()

    @cached_property
    def packed(self) -> Laid:
        """The layout with one row for all candidates."""
        start = len(self.prompt)
        tokens, segments = list(self.prompt), [0] * start
        positions = list(range(start))
        answers: list[CandidateSpan] = []
        for number, candidate in enumerate(self.candidates):
            # The last token is only predicted, so it need not be put in.
            answers.append(
                CandidateSpan(0, (start - 1, *range(len(tokens), len(tokens) + len(candidate) - 1)))
            )
            tokens += candidate[:-1]
            segments += [number + 1] * (len(candidate) - 1)
            positions += range(start, start + len(candidate) - 1)
        return Laid((Row(tuple(tokens), tuple(segments), tuple(positions)),), tuple(answers))

    @cached_property
    def plain(self) -> Laid:
        """The layout with one row per candidate."""
        start = len(self.prompt)
        rows = [Row((*self.prompt, *candidate[:-1])) for candidate in self.candidates]
        answers = [
            CandidateSpan(number, tuple(range(start - 1, start + len(candidate) - 1)))
            for number, candidate in enumerate(self.candidates)
        ]
        return Laid(tuple(rows), tuple(answers))


@dataclass(frozen=True)
class CandidateSpan:
    """Where a candidate's tokens are predicted: a row, and a column for each token."""

    row: int
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Laid:
    """Rows of one question, and where in them its candidates are predicted."""

    rows: tuple[Row, ...]
    answers: tuple[CandidateSpan, ...]


def _tokenized(
    substrate: Substrate, prompt: str, candidates: tuple[str, ...], limits: Limits
) -> EncodedQuestion:
    encoder, end = substrate.encoder, int(substrate.tokenizer.eos_token_id)
    encoder.check_length(prompt, limits.prompt, "the prompt", ADVICE["prompt"])
    for number, candidate in enumerate(candidates):
        encoder.check_length(
            candidate, limits.candidate, f"candidate {number}", ADVICE["candidate"]
        )
    # Candidates are tokenised by themselves, so that a prompt never changes what they are.
    answers = [encoder.encode(candidate) for candidate in candidates]
    for number, answer in enumerate(answers):
        if end in answer and encoder.texts == "plain":
            raise LarcError(f"candidate {number} holds an end of sequence; remove it.")
    ended = tuple((*answer, end) for answer in answers)
    last = last_line(prompt)
    stem = encoded_prompt(substrate, last) if last else ()
    return EncodedQuestion(encoded_prompt(substrate, prompt), ended, stem)


def last_line(prompt: str) -> str:
    r"""Return the last line of a prompt that has something in it; nothing where it is the only one.

    Examples
    --------
    >>> last_line("Which component?\nfix the parser\nAnswer:"), last_line("2+2=")
    ('Answer:', '')
    """
    body = prompt.rstrip("\n")
    start = body.rfind("\n") + 1
    return prompt[start:] if body[:start].strip() else ""


def encoded_prompt(substrate: Substrate, prompt: str) -> tuple[int, ...]:
    """Return a prompt's tokens: as it is, or as a user's message where the substrate is a chat."""
    if substrate.chat is None:
        return substrate.encoder.encode(prompt, begin=True)
    # Control tokens that the text spells are characters: only the template can begin or end.
    plain = substrate.encoder.encode(prompt, plain=True)
    return (*substrate.chat.before, *plain, *substrate.chat.after)


def ask(
    substrate: Substrate, prompt: str, candidates: Sequence[str], limits: Limits | None = None
) -> EncodedQuestion:
    """Turn texts into a question, refusing what cannot be scored.

    Examples
    --------
    >>> from larc.substrate import load_substrate
    >>> question = ask(load_substrate("tiny"), "2+2=", ["4", "5"])
    >>> len(question.prompt), [len(candidate) for candidate in question.candidates]
    (4, [2, 2])
    """
    limits = limits or Limits()
    prompt = text(prompt, "the prompt")
    texts = checked_candidates(candidates)
    key = (prompt, texts, limits, substrate.tokenizer.eos_token_id)
    known: EncodedQuestion | None = substrate.questions.get(key)
    if known is not None:
        return known
    question = _tokenized(substrate, prompt, texts, limits)
    _check(question, limits, substrate)
    substrate.questions[key] = question
    if len(substrate.questions) > _KEPT_QUESTIONS:
        substrate.questions.popitem(last=False)
    return question


def _check(question: EncodedQuestion, limits: Limits, substrate: Substrate) -> None:
    if len(set(question.candidates)) < len(question.candidates):
        raise LarcError("two candidates are the same tokens; give each candidate once.")
    if not question.prompt:
        raise LarcError("the prompt is empty; give at least one token before the candidates.")
    if len(question.prompt) > limits.prompt:
        raise LarcError(
            f"the prompt has {len(question.prompt)} tokens, over the limit of {limits.prompt}; "
            f"{ADVICE['prompt']}."
        )
    for number, tokens in enumerate(question.candidates):
        if len(tokens) > limits.candidate:
            raise LarcError(
                f"candidate {number} has {len(tokens)} tokens with its end of sequence, over the "
                f"limit of {limits.candidate}; {ADVICE['candidate']}."
            )
    longest = len(question.prompt) + max(map(len, question.candidates)) - 1
    if substrate.longest is not None and longest > substrate.longest:
        raise LarcError(
            f"the prompt and a candidate take {longest} positions, and {substrate.name} has "
            f"{substrate.longest}; shorten them."
        )


def prior_question(substrate: Substrate, question: EncodedQuestion) -> EncodedQuestion:
    r"""Return a question's candidates without the question: after the prompt's last line alone.

    The line says what kind of thing is asked for (``Answer:``), so that names are compared by what
    the question adds. After a prompt of one line nothing is left of it but the beginning of a
    sequence.

    Examples
    --------
    >>> from larc.substrate import load_substrate
    >>> tiny = load_substrate("tiny")
    >>> asked = ask(tiny, "What is 2+2?\nSum: ", ["4", "5"])
    >>> prior = prior_question(tiny, asked)
    >>> len(prior.prompt), prior.candidates == asked.candidates
    (5, True)
    >>> len(prior_question(tiny, ask(tiny, "2+2=", ["4", "5"])).prompt)
    1
    """
    if question.stem:
        return EncodedQuestion(question.stem, question.candidates)
    first = substrate.tokenizer.bos_token_id
    start = first if isinstance(first, int) else int(substrate.tokenizer.eos_token_id)
    return EncodedQuestion((start,), question.candidates)
