"""The playground: what is typed is learned, and forgotten again."""

import re

import pytest


def test_the_playground_learns_and_forgets(server, visit):
    person = visit(server, server.token)
    page = person.send(
        "/playground/ask", page="/playground", prompt="A bird is ", candidates="up\nx\n"
    )

    def shares(text):
        return [float(one) for one in re.findall(r"<b>([\d.]+)\u00a0%</b>", text)]

    def question(text):
        return re.search(r'name="question" value="([^"]+)"', text)[1]

    first = shares(page.text)
    assert len(first) == 2
    moved = person.send(
        "/playground/feedback",
        question=question(page.text),
        label="1",
        steps="2",
        page="/playground",
    )
    second = shares(moved.text)
    assert second[1] > first[1] + 1
    assert server.status("playground")["labelled"] == 2
    again = person.send("/playground/reset", question=question(moved.text), page="/playground")
    assert shares(again.text) == pytest.approx(first, abs=0.11)
    for wrong in ({"label": "9"}, {"label": "x"}, {"label": "0", "steps": "1000"}):
        fields = {"question": question(again.text), **wrong}
        assert person.send("/playground/feedback", page="/playground", **fields).status_code == 422
    assert person.send("/playground/ask", prompt="", candidates="a").status_code == 422
    assert person.send("/playground/ask", prompt="a", candidates="b\nb").status_code == 422


def test_a_playground_is_among_ones_own_streams(server, visit):
    scopes = ["ask", "label", "read"]
    person = visit(server, server.token_for(scopes, ["acme.*"]))
    person.send("/playground/ask", page="/playground", prompt="a ", candidates="b\nc")
    assert server.status("acme.playground")["asked"] == 1
    single = visit(server, server.token_for(scopes, ["tickets"]))
    assert "for single streams" in single.get("/playground").text
    assert single.send("/playground/ask", prompt="a ", candidates="b\nc").status_code == 403
