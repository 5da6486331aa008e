"""Questions, answers and labels as plain JSON values, for queues, files and services.

    question    {"name": "a", "candidates": ["up", "down"], "prompt": "Next: ", "source": null}
    answer      {"name": "a", "candidates": ["up", "down"], "probabilities": {"keep": [0.5, 0.5]}}
    label       {"name": "a", "label": "down"}

A label is the index of the right candidate, its text, or a list with a loss for each candidate.
``SCHEMA`` says so in JSON Schema; `question_from_json` and `label_from_json` refuse anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from larc.errors import LarcError
from larc.stream.question import LabelValue, Question

_NAME = {"type": "string", "minLength": 1, "description": "Unique in its stream."}
_CANDIDATES = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "minItems": 1,
    "uniqueItems": True,
}
#: JSON Schema (2020-12) of the three forms, each under ``$defs``.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Questions, answers and labels of larc",
    "$defs": {
        "question": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "candidates": _CANDIDATES,
                "prompt": {"type": "string", "default": ""},
                "source": {"description": "What the prompter knows the question by."},
            },
            "required": ["name", "candidates"],
            "additionalProperties": False,
        },
        "answer": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "candidates": _CANDIDATES,
                "probabilities": {
                    "type": "object",
                    "description": "By strategy: a probability for each candidate.",
                    "additionalProperties": {
                        "type": "array",
                        "items": {"type": "number", "minimum": 0, "maximum": 1},
                        "minItems": 1,
                    },
                },
            },
            "required": ["name", "candidates", "probabilities"],
            "additionalProperties": False,
        },
        "label": {
            "type": "object",
            "properties": {
                "name": _NAME,
                "label": {
                    "oneOf": [
                        {"type": "integer", "minimum": 0},
                        {"type": "string", "minLength": 1},
                        {"type": "array", "items": {"type": "number"}, "minItems": 1},
                    ]
                },
            },
            "required": ["name", "label"],
            "additionalProperties": False,
        },
    },
    "oneOf": [
        {"$ref": "#/$defs/question"},
        {"$ref": "#/$defs/answer"},
        {"$ref": "#/$defs/label"},
    ],
}


def question_to_json(question: Question) -> dict[str, Any]:
    """Return a question as JSON values; its source has to be made of such.

    Examples
    --------
    >>> question_to_json(Question("a", ("up", "down"), prompt="Next: "))
    {'name': 'a', 'candidates': ['up', 'down'], 'prompt': 'Next: ', 'source': None}
    """
    return {
        "name": question.name,
        "candidates": list(question.candidates),
        "prompt": question.prompt,
        "source": question.source,
    }


def question_from_json(form: Any) -> Question:
    """Return the question of a form.

    Examples
    --------
    >>> question_from_json({"name": "a", "candidates": ["up", "down"], "prompt": "Next: "})
    Question('a', ['up', 'down'], prompt='Next: ')
    >>> question_from_json({"name": "a", "candidate": ["up"]})
    Traceback (most recent call last):
    ...
    larc.errors.LarcError: a question has no field 'candidate'; give name, candidates, prompt,
    source.
    """
    fields = _fields(form, "question")
    if not isinstance(fields["candidates"], list):
        raise LarcError("the candidates of a question are no list; give a list of texts.")
    return Question(
        fields["name"],
        tuple(fields["candidates"]),
        fields.get("prompt", ""),
        fields.get("source"),
    )


def label_to_json(name: str, label: LabelValue | ArrayLike) -> dict[str, Any]:
    """Return a label as JSON values.

    Examples
    --------
    >>> label_to_json("a", "down"), label_to_json("b", (0.0, 1.0))
    ({'name': 'a', 'label': 'down'}, {'name': 'b', 'label': [0.0, 1.0]})
    """
    if isinstance(label, str):
        return {"name": name, "label": label}
    if hasattr(label, "tolist"):
        label = label.tolist()
    return {"name": name, "label": list(label) if isinstance(label, Sequence) else label}


def label_from_json(form: Any) -> tuple[str, LabelValue]:
    """Return the name and the label of a form, as `Session.learn` takes them.

    Examples
    --------
    >>> dict([label_from_json({"name": "a", "label": 1})])
    {'a': 1}
    """
    fields = _fields(form, "label")
    name, label = fields["name"], fields["label"]
    if not isinstance(name, str) or not name:
        raise LarcError(f"a label is for {name!r}; give the name of its question as a text.")
    if isinstance(label, bool) or not isinstance(label, int | str | list):
        raise LarcError(
            f"the label of {name!r} is {label!r}; give an index, a text or a list of losses."
        )
    return name, label


def answers_to_json(
    questions: Sequence[Question], answers: Mapping[str, Sequence[NDArray[Any]]]
) -> list[dict[str, Any]]:
    """Return what `Session.ask` answered, one form for each question.

    Examples
    --------
    >>> import numpy as np
    >>> question = Question("a", ("up", "down"))
    >>> answers_to_json([question], {"keep": [np.array([0.25, 0.75])]})
    [{'name': 'a', 'candidates': ['up', 'down'], 'probabilities': {'keep': [0.25, 0.75]}}]
    """
    return [
        {
            "name": question.name,
            "candidates": list(question.candidates),
            "probabilities": {who: rows[number].tolist() for who, rows in answers.items()},
        }
        for number, question in enumerate(questions)
    ]


def _fields(form: Any, what: str) -> Mapping[str, Any]:
    about = SCHEMA["$defs"][what]
    names = list(about["properties"])
    if not isinstance(form, Mapping):
        raise LarcError(f"a {what} is of type {type(form).__name__}; give an object.")
    for name in form:
        if name not in names:
            raise LarcError(f"a {what} has no field {name!r}; give {', '.join(names)}.")
    for name in about["required"]:
        if name not in form:
            raise LarcError(f"a {what} has no {name}; give {', '.join(about['required'])}.")
    return form
