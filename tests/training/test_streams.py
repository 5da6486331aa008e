"""Slow training through a stream: its gradients from their definition, its order, its work."""

import dataclasses
import weakref

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import larc
from larc.questions import ask
from larc.residual import Factors
from larc.scoring import energies, layout_for
from larc.stream import Ask, order_events
from larc.stream.question import labels_of, questions_of
from larc.training.streams import StreamSettings, StreamTrainer
from larc.training.walk import rounds_of
from tests.questions import start

KINDS = ("billing", "fault", "praise")


def stream(number, count=9, delay=1.5, text="ticket"):
    """A stream whose labels follow a shift of its own, some of them together, and late."""
    return [
        larc.Recorded(
            larc.Question(
                f"{number}-{n:03}", KINDS, prompt=f"{text} {n % 4} {'of it ' * (n % 3)}: "
            ),
            asked=float(n // 2),
            arrives=None if n % 7 == 6 else n // 2 + delay,
            label=(number + n) % 3,
        )
        for n in range(count)
    ]


def replayed(items):
    return list(
        order_events(
            items,
            asked=lambda item: item.asked,
            arrives=lambda item: item.arrives,
            identifier=lambda item: item.name,
        )
    )


def by_torch_func(substrate, slow, windows, rule, *, loss="cross-entropy", reach=None):
    """The outer gradient from its definition, with torch.func and no code of the trainer or rule.

    ``reach`` cuts the way back at every so many updates, as ``horizon`` is defined to.
    """

    def scores(item, A, B):
        question = ask(substrate, item.question.prompt, item.question.candidates)
        return energies(substrate, [question], Factors(A, B), slow.boundary)[0]

    def label_loss(items, A, B):
        each = [-scores(item, A, B).log_softmax(-1)[item.label] for item in items]
        return sum(each) / len(each)

    def judged(item, A, B):
        if loss == "cross-entropy":
            return label_loss([item], A, B)
        policy = scores(item, A, B).softmax(-1)
        return 0.5 * (policy - torch.eye(len(policy))[item.label]).square().sum()

    def of_window(items, A, B):
        a, b, answers, updates = A, B, [], 0
        for event in replayed(items):
            if isinstance(event, Ask):
                answers += [judged(item, a, b) for item in event.items]
                continue
            inner = torch.func.grad(lambda a, b, own=event.items: label_loss(own, a, b), (0, 1))
            slope_a, slope_b = inner(a, b)
            share = (1 + updates) ** -rule.slowing
            size_b = rule.step_size if rule.step_size_b is None else rule.step_size_b
            a = A + (a - rule.step_size * share * slope_a - A) / (1 + rule.decay)
            b = B + (b - size_b * share * slope_b - B) / (1 + rule.decay)
            updates += 1
            if reach is not None and updates % (reach + 1) == 0:
                a, b = A + (a - A).detach(), B + (b - B).detach()
        return sum(answers) / len(answers)

    def mean(A, B):
        return sum(of_window(items, A, B) for items in windows) / len(windows)

    rho = (slow.factors.A, slow.factors.B)
    with sdpa_kernel(SDPBackend.MATH):
        return torch.func.grad(mean, argnums=(0, 1))(*rho), float(mean(*rho).detach())


@pytest.mark.parametrize(
    ("gradient", "horizon", "reach"),
    [
        ("first-order", None, 0),
        ("exact", None, None),
        ("exact", 0, 0),
        ("exact", 1, 1),
        ("exact", 2, 2),
    ],
)
@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        ("cross-entropy", larc.SGD(0.4)),
        ("half-brier", larc.SGD(0.4)),
        ("cross-entropy", larc.SGD(0.4, step_size_b=0.3, slowing=0.25, decay=0.2)),
    ],
)
def test_gradients_are_what_they_are_defined_to_be(tiny, gradient, horizon, reach, loss, rule):
    windows, slow = [stream(0), stream(1, 6, 0.5), stream(2, 7, 2.5)], start(tiny, boundary=1)
    settings = StreamSettings(gradient=gradient, horizon=horizon, rule=rule, window=9, loss=loss)
    trainer = StreamTrainer(tiny, slow, windows, settings)
    value, found = trainer.gradient_through(windows)
    (A, B), expected = by_torch_func(tiny, slow, windows, rule, loss=loss, reach=reach)
    assert value == pytest.approx(expected, abs=1e-6)
    # Fused and plain attention round differently, and that goes through several updates.
    torch.testing.assert_close(found.A, A, atol=5e-5 * float(A.abs().max()), rtol=1e-4)
    torch.testing.assert_close(found.B, B, atol=5e-5 * float(B.abs().max()), rtol=1e-4)


def test_first_order_and_exact_really_differ(tiny):
    windows, slow = [stream(0), stream(1)], start(tiny)
    exact, first = (
        StreamTrainer(
            tiny, slow, windows, StreamSettings(gradient=kind, rule=larc.SGD(0.5))
        ).gradient_through(windows)[1]
        for kind in ("exact", "first-order")
    )
    assert float((exact.B - first.B).abs().max()) > 1e-2 * float(first.B.abs().max())


@pytest.mark.parametrize("rule", [larc.SGD(0.5), larc.Descent(0.2)])
def test_the_loss_is_that_of_the_answers_a_live_session_gives(tiny, rule):
    """The same order, delays and updates as in live use, with no code of the trainer."""
    windows, slow = [stream(0), stream(1, 7, 0.25)], start(tiny)
    losses = []
    for items in windows:
        session = larc.Session(larc.Learner(tiny, slow, rule), [larc.Strategy("keep")], seed=1)
        own = []
        for event in replayed(items):
            if isinstance(event, Ask):
                said = session.ask(questions_of(event.items))["keep"]
                own += [-np.log(p[i.label]) for p, i in zip(said, event.items, strict=True)]
            else:
                session.learn(labels_of(event.items))
        losses.append(np.mean(own))
    value, _ = StreamTrainer(tiny, slow, windows, StreamSettings(rule=rule)).gradient_through(
        windows
    )
    assert value == pytest.approx(np.mean(losses), abs=1e-5)


def test_a_question_is_read_before_its_label_whatever_the_label_is(tiny):
    """The last question's label cannot matter to what any answer's state was."""
    items, slow = stream(0), start(tiny)
    trainer = StreamTrainer(tiny, slow, [items], StreamSettings())
    rounds = rounds_of(items)
    arrived = [item.name for one in rounds for item in one.arrived]
    last_asked = max(item.asked for item in items)
    assert set(arrived) == {
        item.name for item in items if item.arrives is not None and item.arrives < last_asked
    }
    asked = [item.name for one in rounds for item in one.asked]
    assert sorted(asked) == sorted(item.name for item in items)
    assert trainer.gradient_through([items])[0] > 0


@pytest.mark.parametrize("gradient", ["first-order", "exact"])
def test_training_resumes_to_the_same_bytes(tiny, tmp_path, gradient):
    streams = [stream(number, 12) for number in range(3)]

    def train(updates, **more):
        return larc.train_streams(
            tiny, streams, gradient=gradient, window=6, updates=updates, seed=5, **more
        )

    whole, path = train(5), tmp_path / "training"
    train(2, checkpoint=path)
    assert train(5, checkpoint=path).to_bytes() == whole.to_bytes()
    with pytest.raises(larc.LarcError, match="other settings"):
        larc.train_streams(tiny, streams, window=5, updates=6, seed=5, checkpoint=path)
    other = [*streams[:2], stream(3, 12)]
    with pytest.raises(larc.LarcError, match="other streams"):
        larc.train_streams(
            tiny, other, gradient=gradient, window=6, updates=6, seed=5, checkpoint=path
        )


def test_training_lowers_the_loss_of_a_kept_state_on_other_streams(tiny):
    def habit(number):  # one label throughout, another one for each
        return [dataclasses.replace(item, label=number % 3) for item in stream(number, 24)]

    training, held = [habit(n) for n in range(6)], [habit(n) for n in (6, 7, 8)]
    rule = larc.SGD(0.5)

    def loss(slow):
        settings = StreamSettings(rule=rule, window=24)
        return StreamTrainer(tiny, slow, held, settings).gradient_through(held)[0]

    before = larc.SlowState.initial(tiny, seed=1)
    after = larc.train_streams(
        tiny, training, rule=rule, window=24, updates=24, seed=1, outer=larc.AdamW(5e-3)
    )
    assert loss(after) < loss(before) - 0.1


def uneven(number, count=16):
    """A stream whose texts and delays are drawn: in most rounds it has labels, in some none."""
    draw = np.random.default_rng([1, number])
    return [
        dataclasses.replace(
            item,
            question=dataclasses.replace(
                item.question, prompt="word " * int(draw.integers(1, 9)) + f"{item.name}: "
            ),
            arrives=item.asked + float(draw.choice([0.5, 1.5, 4.5])),
        )
        for item in stream(number, count)
    ]


@pytest.mark.parametrize("even", [True, False], ids=["even", "uneven"])
@pytest.mark.parametrize("gradient", ["first-order", "exact"])
def test_a_window_of_eight_streams_costs_what_its_questions_and_labels_need(gradient, even):
    substrate = larc.load_substrate("tiny")
    windows = [stream(n, 16, 1.5, "a ticket " * (1 + n)) if even else uneven(n) for n in range(8)]
    slow = start(substrate)
    settings = StreamSettings(gradient=gradient, batch=8, window=16)
    trainer = StreamTrainer(substrate, slow, windows, settings)
    substrate.packs(256)  # found out by trying, once, and no part of a window
    substrate.packs(64)
    substrate.packs(128)
    substrate.ledger.clear()
    trainer.gradient_through(windows)

    def size(item):
        question = ask(substrate, item.question.prompt, item.question.candidates)
        return sum(len(row.tokens) for row in layout_for(substrate, question).rows)

    needed = updates = 0
    for items in windows:
        for one in rounds_of(items):
            # A question that is asked and answered at one state is read once.
            texts = {item.question.prompt: item for item in (*one.asked, *one.arrived)}
            needed += sum(size(item) for item in texts.values())
            if gradient == "exact":  # an update that is gone back through is made again
                needed += sum(size(item) for item in one.arrived)
                updates += bool(one.arrived)
    work = substrate.ledger.total("mixer")
    assert work.physical <= 1.2 * needed
    assert work.effective <= needed  # nothing is read twice
    # Streams share physical batches: far fewer calls than streams times rounds.
    rounds = max(len(rounds_of(items)) for items in windows)
    assert work.calls <= 6 * rounds + updates
    assert substrate.ledger.total("below").calls == 0


@pytest.mark.parametrize("gradient", ["first-order", "exact"])
def test_memory_does_not_grow_with_the_window(tiny, gradient):
    """The most that is held for a way back at once, in bytes."""

    def most(count):
        items = [  # in rounds that are alike
            larc.Recorded(larc.Question(f"{n}", KINDS, "ticket: "), n, n + 1.5, label=n % 3)
            for n in range(count)
        ]
        settings = StreamSettings(gradient=gradient, window=count, rule=larc.SGD(0.3))
        trainer = StreamTrainer(tiny, start(tiny), [items], settings)
        live, peak = {}, 0

        def pack(tensor):
            nonlocal peak
            held = Held(tensor)
            live[id(held)] = tensor.nbytes
            weakref.finalize(held, live.pop, id(held))
            peak = max(peak, sum(live.values()))
            return held

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda held: held.tensor):
            trainer.gradient_through([items])
        return peak

    short, long = most(8), most(48)
    assert 0 < long <= 1.1 * short


class Held:
    """A tensor that is kept for a way back, for as long as it is."""

    def __init__(self, tensor):
        self.tensor = tensor


def test_windows_are_drawn_from_every_stream_and_place(tiny):
    streams = [stream(number, 12) for number in range(3)]
    trainer = StreamTrainer(tiny, start(tiny), streams, StreamSettings(window=4, batch=3, seed=2))
    firsts = set()
    for update in range(30):
        trainer.updates = update
        windows = trainer.windows()
        assert len({items[0].name.split("-")[0] for items in windows}) == 3
        assert all(len(items) == 4 for items in windows)
        firsts |= {items[0].name for items in windows}
    assert len(firsts) > 18  # of 27


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"streams": []}, "no streams"),
        ({"streams": [stream(0)[:1]]}, "fewer than two questions"),
        ({"streams": [stream(0)[:2]]}, "nothing to train through"),
        ({"streams": stream(0)}, "give a list"),
        ({"objective": "static"}, "objective 'static' is unknown"),
        ({"gradient": "second"}, "gradient 'second' is unknown"),
        ({"loss": "brier"}, "loss 'brier' is unknown"),
        ({"window": 1}, "window is 1"),
        ({"horizon": 3}, "of the exact gradient"),
        ({"limits": larc.Limits(prompt=2)}, "over the limit"),
        ({"outer": torch.ones(2, 2)}, "outer"),
    ],
)
def test_what_cannot_be_trained_is_refused(tiny, changes, reason):
    given = {"streams": [stream(0)], "updates": 1, "seed": 1, **changes}
    with pytest.raises(larc.LarcError, match=reason):
        larc.train_streams(tiny, given.pop("streams"), **given)


def test_names_and_sources_are_no_part_of_what_is_learned(tiny):
    """A source may be anything, also what JSON does not hold."""
    items = [
        dataclasses.replace(item, question=dataclasses.replace(item.question, source=object()))
        for item in stream(0)
    ]
    assert larc.train_streams(tiny, [items], window=4, updates=1, seed=1).version == 1
