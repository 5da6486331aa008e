"""Plain forms: they say in JSON what the objects hold, and the schema agrees."""

import json

import pytest

import larc
from larc.stream import Question, forms
from tests.stream.test_session import CANDIDATES, asked, session_on


def test_forms_go_there_and_back_and_are_what_the_schema_says(tiny):
    schema = pytest.importorskip("jsonschema")
    question = Question("a", CANDIDATES, prompt="Next: ", source={"id": 7})
    session = session_on(tiny)
    told = [
        forms.question_to_json(question),
        *forms.answers_to_json([question], session.ask([question])),
        *(forms.label_to_json("a", label) for label in (1, "down", (0.0, 0.5, 1.0))),
    ]
    for form in told:
        schema.validate(json.loads(json.dumps(form)), forms.SCHEMA)
    assert forms.question_from_json(json.loads(json.dumps(told[0]))) == question
    assert set(told[1]["probabilities"]) == set(session.episodes)
    for form, label in zip(told[2:], (1, "down", [0.0, 0.5, 1.0]), strict=True):
        assert forms.label_from_json(form) == ("a", label)
    session_on(tiny).plan([forms.question_from_json(told[0])])


@pytest.mark.parametrize(
    "form",
    [
        None,
        [],
        {},
        {"name": "a"},
        {"name": "a", "candidates": "up"},
        {"name": "", "candidates": ["up", "down"]},
        {"name": "a", "candidates": ["up", 1]},
        {"name": "a", "candidates": ["up"], "prompt": 1},
        {"name": "a", "candidates": ["up"], "label": 1},
    ],
)
def test_what_is_no_question_is_refused_by_the_reader_and_by_the_schema(form):
    schema = pytest.importorskip("jsonschema")
    with pytest.raises(larc.LarcError):
        forms.question_from_json(form)
    part = {"$ref": "#/$defs/question", "$defs": forms.SCHEMA["$defs"]}
    with pytest.raises(schema.ValidationError):
        schema.validate(form, part)


@pytest.mark.parametrize("label", [True, None, 1.5, {}])
def test_what_is_no_label_is_refused(label):
    with pytest.raises(larc.LarcError):
        forms.label_from_json({"name": asked("a").name, "label": label})
