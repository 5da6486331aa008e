"""Published results were made while control tokens in texts were read: none of their texts had any,
so that encoding texts as text leaves every one of them as it is."""

import pytest

from larc.domains.ci import ci_prompt, read_jobs
from larc.domains.programs import build_episodes, split_groups, to_task
from larc.questions import ask

SPLITS = ("training", "development", "reserved", "historical")


def controls(substrate):
    return [str(token) for token in substrate.tokenizer.added_tokens_encoder]


@pytest.mark.smollm2
def test_no_text_of_the_program_studies_spells_a_control_token(smollm2):
    tasks = [
        to_task(episode, with_query=False)
        for split in SPLITS
        for episode in build_episodes(split_groups(split), final_evaluation=split == "reserved")
    ]
    texts = {text for task in tasks for text in (task.prompt, *task.candidates)}
    assert len(texts) > 1000
    assert [text for text in texts for token in controls(smollm2) if token in text] == []
    for task in tasks[::50]:  # and the tokens are those of the tokenizer as it is
        asked = ask(smollm2, task.prompt, task.candidates)
        assert list(asked.prompt) == smollm2.tokenizer(task.prompt)["input_ids"]


@pytest.mark.smollm2
def test_no_job_of_the_ci_studies_spells_a_control_token(smollm2, shared_data):
    jobs, _ = read_jobs(sorted((shared_data / "ci").glob("*.jsonl.gz")))
    prompts = {ci_prompt(job.observation) for job in jobs}
    assert len(prompts) > 1000
    assert [text for text in prompts for token in controls(smollm2) if token in text] == []
