"""Any interleaving of events of several sessions is the same events session by session."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import larc
from larc.stream import Question, Strategy
from larc.stream.plans import BATCH_ROUNDING, compute
from tests.stream.test_session import CANDIDATES, session_on

STRATEGIES = (
    Strategy("reset", retention="reset"),
    Strategy("keep"),
    Strategy("latest", retention="latest", scale=0.5),
    Strategy("sham", sham=True, rule="descent:0.5"),
)
SESSIONS = 3
KINDS = ("ask", "ask", "learn", "learn", "drop", "save", "restore")
EVENTS = st.lists(
    st.tuples(
        st.integers(0, SESSIONS - 1),
        st.sampled_from(KINDS),
        st.integers(0, 2),
        st.integers(0, len(CANDIDATES) - 1),
    ),
    min_size=4,
    max_size=16,
)
# Factors of the two ways differ in their last bits after some updates, and answers with them.
LATER_ROUNDING = 1e-4


class Player:
    """One session, and what it was asked and answered; events that cannot be are left out."""

    def __init__(self, substrate, number, directory):
        self.substrate, self.number = substrate, number
        self.path = directory / f"session {number}"
        self.session = self.fresh()
        self.asked, self.saved, self.answers = 0, None, []

    def fresh(self):
        return session_on(self.substrate, strategies=STRATEGIES, seed=self.number)

    def plan(self, kind, amount, label):
        """Return a plan for an event that needs the model; others are carried out at once."""
        names = list(self.session.pending)
        if kind == "ask":
            count, self.asked = self.asked, self.asked + 1 + amount
            return self.session.plan(
                [
                    Question(f"{n}", CANDIDATES, prompt=f"Ticket {self.number} {n % 4}: ")
                    for n in range(count, self.asked)
                ]
            )
        if kind == "learn" and names:
            return self.session.plan_learning(
                {name: (label + n) % 3 for n, name in enumerate(names[: 1 + amount])}
            )
        if kind == "drop" and names:
            self.session.drop(names[-1:])
        if kind == "save":
            self.session.save(self.path, self.asked)
            self.saved = True
        if kind == "restore" and self.saved:
            self.session = self.fresh()
            self.asked = self.session.restore(self.path)
        return None

    def commit(self, plan, results):
        taken = self.session.commit(plan, results)
        if "reset" in taken:
            self.answers.append(np.array([taken[one.name] for one in STRATEGIES]))

    def state(self):
        return list(self.session.pending), dict(self.session.labelled), self.session.events


def batches(events):
    """Group events as a service would: until a session comes a second time."""
    batch = []
    for event in events:
        if any(event[0] == other[0] for other in batch):
            yield batch
            batch = []
        batch.append(event)
    if batch:
        yield batch


def play(directory, events, *, together):
    substrate = larc.load_substrate("tiny")
    directory.mkdir()
    players = [Player(substrate, number, directory) for number in range(SESSIONS)]
    learner = players[0].session.learner
    groups = batches(events) if together else ([event] for event in events)
    for group in groups:
        plans = [(players[number], players[number].plan(*event)) for number, *event in group]
        plans = [(player, plan) for player, plan in plans if plan is not None]
        results = compute(learner, [plan for _, plan in plans])
        for (player, plan), result in zip(plans, results, strict=True):
            player.commit(plan, result)
    return players


@given(EVENTS)
@settings(max_examples=20, deadline=None)
def test_any_interleaving_is_the_same_events_session_by_session(tmp_path_factory, events):
    directory = tmp_path_factory.mktemp("sessions")
    one_by_one = sorted(events, key=lambda event: event[0])  # stable: session by session
    expected = play(directory / "alone", one_by_one, together=False)
    interleaved = play(directory / "interleaved", events, together=False)
    together = play(directory / "together", events, together=True)
    for alone, mixed, shared in zip(expected, interleaved, together, strict=True):
        assert mixed.state() == shared.state() == alone.state()
        assert len(mixed.answers) == len(shared.answers) == len(alone.answers)
        for number, answer in enumerate(alone.answers):
            assert np.array_equal(mixed.answers[number], answer)  # computed alone: bit for bit
            tolerance = BATCH_ROUNDING if alone.session.point == 0 else LATER_ROUNDING
            np.testing.assert_allclose(shared.answers[number], answer, atol=tolerance, rtol=0)
        for name, episode in alone.session.episodes.items():
            assert mixed.session.episodes[name].factors.equal(episode.factors)
            assert mixed.session.episodes[name].step == episode.step
            streams = [
                player.session.episodes[name].stream.bit_generator.state
                for player in (alone, mixed, shared)
            ]
            assert streams[0] == streams[1] == streams[2]
