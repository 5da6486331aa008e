"""The real client of OpenAI against a stream."""

import openai
import pytest


@pytest.fixture
def client(sqlite_server):
    sqlite_server.make("s", template="plain")
    with openai.OpenAI(
        base_url=f"{sqlite_server.address}/v1", api_key=sqlite_server.token, max_retries=0
    ) as opened:
        yield opened


def test_models(client):
    assert [model.id for model in client.models.list()] == ["larc:s"]


def test_generation_is_pinned_and_read_only(client, sqlite_server):
    how = {"model": "larc:s", "prompt": "hello", "max_tokens": 8, "temperature": 0}
    first = client.completions.create(**how, logprobs=2)
    assert first.usage.completion_tokens == len(first.choices[0].logprobs.tokens) <= 8
    assert first.model_extra["larc"]["state_version"] == 0
    assert first.system_fingerprint.endswith("-0")
    assert client.completions.create(**how).choices[0].text == first.choices[0].text
    assert sqlite_server.status("s")["last_seq"] == 0  # nothing was asked of the stream
    streamed = client.completions.create(**how, stream=True)
    text = "".join(part.choices[0].text for part in streamed)
    assert text == first.choices[0].text


def test_a_version_is_kept(client, sqlite_server):
    score = {"prompt": "Next: up", "max_tokens": 0, "echo": True, "logprobs": 0}

    def logs(model):
        reply = client.completions.create(model=model, **score)
        assert reply.choices[0].text == "Next: up"
        return reply.choices[0].logprobs.token_logprobs

    fresh = logs("larc:s")
    assert fresh[0] is None
    for number in range(3):
        sqlite_server.ask("s", f"q{number}")
        sqlite_server.label("s", f"q{number}", "up")
    version = sqlite_server.http.post("/v1/streams/s/snapshots").json()["version"]
    kept = logs("larc:s")
    assert kept != fresh
    assert sum(kept[6:]) > sum(fresh[6:])  # what was right became likelier
    sqlite_server.ask("s", "more")
    sqlite_server.label("s", "more", "down")
    assert logs(f"larc:s@{version}") == kept
    assert logs("larc:s@0") == fresh
    with pytest.raises(openai.NotFoundError):
        logs("larc:s@999")


def test_chat(client):
    messages = [{"role": "user", "content": "Say something"}]
    reply = client.chat.completions.create(
        model="larc:s",
        messages=messages,
        max_tokens=6,
        temperature=0,
        logprobs=True,
        top_logprobs=2,
    )
    assert reply.choices[0].message.role == "assistant"
    assert len(reply.choices[0].logprobs.content[0].top_logprobs) == 2
    streamed = client.chat.completions.create(
        model="larc:s", messages=messages, max_tokens=6, temperature=0, stream=True
    )
    text = "".join(part.choices[0].delta.content or "" for part in streamed)
    assert text == reply.choices[0].message.content


def test_a_question_that_is_named_is_asked(client, sqlite_server):
    more = {"larc": {"question_id": "a", "candidates": ["up", "down"]}}
    ask = {"model": "larc:s", "prompt": "Next: ", "extra_body": more}
    reply = client.completions.create(**ask)
    assert reply.choices[0].text in ("up", "down")
    again = client.completions.create(**ask)
    assert again.model_extra["larc"] == reply.model_extra["larc"]
    assert sqlite_server.status("s")["awaited"] == 1
    assert sqlite_server.label("s", "a", 0).status_code == 200


@pytest.mark.parametrize("chat", [False, True])
def test_a_question_that_is_named_is_streamed_too(client, sqlite_server, chat):
    more = {"larc": {"question_id": "a", "candidates": ["up", "down"]}}
    ask = {"model": "larc:s", "extra_body": more}
    if chat:
        create = client.chat.completions.create
        ask["messages"] = [{"role": "user", "content": "Next?"}]
        whole = create(**ask).choices[0].message.content
    else:
        create = client.completions.create
        ask["prompt"] = "Next: "
        whole = create(**ask).choices[0].text
    parts = list(create(**ask, stream=True))
    pieces = [
        (one.choices[0].delta.content or "") if chat else one.choices[0].text for one in parts
    ]
    assert "".join(pieces) == whole
    assert [one.choices[0].finish_reason for one in parts] == [None, "stop"]
    assert {one.object for one in parts} == {"chat.completion.chunk" if chat else "text_completion"}
    probabilities = parts[0].model_extra["larc"]["probabilities"]
    assert whole == ("up", "down")[probabilities.index(max(probabilities))]
    assert sqlite_server.status("s")["asked"] == 1


def test_a_question_is_asked_of_no_version(client):
    more = {"larc": {"question_id": "a", "candidates": ["up", "down"]}}
    with pytest.raises(openai.UnprocessableEntityError, match="name no version"):
        client.completions.create(model="larc:s@0", prompt="Next: ", extra_body=more)


def test_refusals_are_the_clients_own_errors(client, sqlite_server):
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.completions.create(model="gpt-4", prompt="x")
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="larc:missing", prompt="x")
    with pytest.raises(openai.UnprocessableEntityError):
        client.completions.create(model="larc:s", prompt="x", n=3)
    stranger = client.with_options(api_key="nobody")
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
