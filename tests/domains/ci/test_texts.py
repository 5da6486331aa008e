"""Experts for text along a queue of jobs."""

from larc.domains.ci.prompter import recorded_job
from larc.domains.ci.synthetic import synthetic_jobs
from larc.domains.ci.texts import TEXTS, as_text, job_text, text_experts


def test_a_job_is_its_words_and_nothing_of_its_end():
    job = synthetic_jobs(3, seed=1)[0]
    item = as_text(recorded_job(job))
    assert item.question.prompt == job_text(job.observation)
    assert job.job_name in item.question.prompt
    # What is asked is the same whatever the job came to.
    other = as_text(recorded_job(job._replace(label=1 - min(job.label, 1))))
    assert other.question == item.question


def test_experts_are_fitted_on_the_training_window_and_begin_with_nothing_private():
    jobs = synthetic_jobs(150, seed=1)
    experts = text_experts(jobs[:120])
    assert [name for expert in experts for name in expert.names] == list(TEXTS)
    item = as_text(recorded_job(jobs[130]))
    for expert in experts:
        before = expert.ask([item.question])
        assert expert.begin().ask([item.question]) == before  # nothing private was left by the fit
    again = text_experts(list(reversed(jobs[:120])))
    for one, other in zip(experts, again, strict=True):  # whatever order they are given in
        assert one.slow() == other.slow()
