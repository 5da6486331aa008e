"""Grammars: which texts may be written, known character by character."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from larc.checks import listed
from larc.checks import text as checked_text
from larc.errors import LarcError
from larc.io.hashes import hash_json

_TOKEN = re.compile(
    r'\s*(?:"((?:[^"\\]|\\.)*)"|\[((?:[^\]\\]|\\.)*)\]|([A-Za-z_][\w-]*)|'
    r"\{(\d+)(?:,(\d*))?\}|([()|?*+]))"
)
_RULE = re.compile(r"^\s*([A-Za-z_][\w-]*)\s*::=", re.MULTILINE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_MOST_REPEATS = 64
# What a state may stand for; more of them are the mark of a rule that begins with itself.
_MOST_STACKS = 20_000

#: A set of characters, or the name of a rule.
Symbol = frozenset[str] | str
#: What is still to be written: the next symbol and the rest; empty where a text may end.
Stack = tuple[Symbol, "Stack"] | tuple[()]
#: Every way to go on from some text.
State = frozenset[Stack]


@dataclass(frozen=True)
class Grammar:
    r"""The texts that a set of rules allows.

    A rule is ``name ::= what it stands for``; the first one is the whole text. It is made of
    ``"texts"``, ``[a-z]`` sets of characters, names of rules, ``( )``, ``|`` for alternatives, and
    ``?``, ``*``, ``+``, ``{2}``, ``{1,3}`` for repetitions; ``\n``, ``\"`` and ``\\`` are escapes.
    No rule may begin with itself.

    Parameters
    ----------
    rules
        The rules, as a text.

    Examples
    --------
    >>> grammar = Grammar('sum ::= number ("+" number){0,2}\nnumber ::= "0" | [1-9] [0-9]?')
    >>> grammar.accepts("12+7"), grammar.accepts("12+"), grammar.accepts("012")
    (True, False, False)
    >>> Grammar.choice(["yes", "no"]).accepts("no")
    True
    """

    rules: str
    #: The state before the first character.
    start: State = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        if not isinstance(self.rules, str):
            raise LarcError(f"a grammar is a text of rules, not {type(self.rules).__name__}.")
        object.__setattr__(self, "_alternatives", _Reader(self.rules).read())
        object.__setattr__(self, "_steps", {})
        first = _RULE.search(self.rules)
        assert first is not None  # or reading had refused it
        object.__setattr__(self, "start", self._expanded({(first[1], ())}))

    @staticmethod
    def choice(texts: Sequence[str]) -> Grammar:
        """Return the grammar of a few texts.

        Examples
        --------
        >>> Grammar.choice(["a", "b"]).rules
        'text ::= "a" | "b"'
        """
        texts = listed(texts, "the texts of a choice")
        if not texts or not all(isinstance(one, str) and one for one in texts):
            raise LarcError("a choice is a list of texts, none of them empty; give at least one.")
        return Grammar("text ::= " + " | ".join(_quoted(text) for text in texts))

    @property
    def digest(self) -> str:
        """A name for exactly these rules."""
        return hash_json(self.rules)

    def advance(self, state: State, character: str) -> State:
        """Return the state after one more character; empty where none can follow."""
        steps: dict[tuple[State, str], State] = self._steps  # type: ignore[attr-defined]
        known = steps.get((state, character))
        if known is None:
            rests = {
                stack[1]
                for stack in state
                if stack and not isinstance(stack[0], str) and character in stack[0]
            }
            known = steps[state, character] = self._expanded(rests)
        return known

    @staticmethod
    def complete(state: State) -> bool:
        """Whether a text may end in this state."""
        return () in state

    def accepts(self, text: str) -> bool:
        """Whether this is a whole text of the grammar."""
        state = self.start
        for character in checked_text(text, "the text"):
            state = self.advance(state, character)
        return self.complete(state)

    def texts(self) -> Iterator[str]:
        """Yield the texts of the grammar, shorter ones first, each length in alphabetical order.

        Examples
        --------
        >>> from itertools import islice
        >>> list(islice(Grammar('text ::= [ab] [ab]? | "cc"').texts(), 5))
        ['a', 'b', 'aa', 'ab', 'ba']
        """
        layer = {"": self.start}
        while layer:
            longer = {}
            for text, state in layer.items():
                if text and self.complete(state):
                    yield text
                characters = {c for stack in state if stack for c in stack[0]}
                for character in sorted(characters):
                    longer[text + character] = self.advance(state, character)
            layer = longer

    def _expanded(self, stacks: set[Stack]) -> State:
        """Replace rules in front by what they stand for, until characters are in front."""
        alternatives: dict[str, list[tuple[Symbol, ...]]] = self._alternatives  # type: ignore[attr-defined]
        seen, waiting, ready = set(stacks), list(stacks), set()
        while waiting:
            stack = waiting.pop()
            if not stack or not isinstance(stack[0], str):
                ready.add(stack)
                continue
            for symbols in alternatives[stack[0]]:
                longer: Stack = stack[1]
                for symbol in reversed(symbols):
                    longer = (symbol, longer)
                if longer not in seen:
                    seen.add(longer)
                    waiting.append(longer)
            if len(seen) > _MOST_STACKS:
                raise LarcError(
                    f"rule {stack[0]!r} of the grammar begins with itself, or is too ambiguous; "
                    "write the repetition as ( ... )*."
                )
        return frozenset(ready)


class _Reader:
    """Reads rules; groups and repetitions become rules with names of their own."""

    def __init__(self, text: str) -> None:
        self.rules: dict[str, list[tuple[Symbol, ...]]] = {}
        heads = list(_RULE.finditer(text))
        if not heads or text[: heads[0].start()].strip():
            raise LarcError("the grammar does not begin with a rule; write `name ::= ...`.")
        self.bodies: dict[str, list[tuple[str, object]]] = {}
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            if head[1] in self.bodies:
                raise LarcError(f"rule {head[1]!r} of the grammar is there twice; keep one.")
            body = text[head.end() : following.start() if following else len(text)]
            self.bodies[head[1]] = list(_lexed(body.strip(), head[1]))

    def read(self) -> dict[str, list[tuple[Symbol, ...]]]:
        for name, tokens in self.bodies.items():
            self.name, self.tokens, self.at = name, tokens, 0
            self.rules[name] = self._choices()
            if self.at < len(tokens):
                raise LarcError(f"rule {name!r} of the grammar has a `)` too many.")
        for name, choices in self.rules.items():
            for symbol in (symbol for choice in choices for symbol in choice):
                if isinstance(symbol, str) and symbol not in self.rules:
                    raise LarcError(
                        f"rule {name.split('/')[0]!r} names {symbol!r}, which the grammar has not."
                    )
        return self.rules

    def _choices(self) -> list[tuple[Symbol, ...]]:
        choices: list[tuple[Symbol, ...]] = [()]
        while self.at < len(self.tokens) and self.tokens[self.at] != ("mark", ")"):
            kind, value = self.tokens[self.at]
            self.at += 1
            if (kind, value) == ("mark", "|"):
                choices.append(())
                continue
            part = self._part(kind, value)
            least, most = self._repeats()
            choices[-1] += part if (least, most) == (1, 1) else self._repeated(part, least, most)
        return choices

    def _part(self, kind: str, value: object) -> tuple[Symbol, ...]:
        if kind == "text":
            return tuple(frozenset(character) for character in str(value))
        if kind == "set":
            return (frozenset(_members(str(value), self.name)),)
        if kind == "name":
            return (str(value),)
        if (kind, value) != ("mark", "("):
            raise LarcError(f"rule {self.name!r} of the grammar repeats nothing with {value!r}.")
        inner = self._choices()
        if self.at >= len(self.tokens):
            raise LarcError(f"rule {self.name!r} of the grammar has a `(` that is not closed.")
        self.at += 1
        return (self._named(inner),)

    def _repeats(self) -> tuple[int, int | None]:
        if self.at < len(self.tokens):
            kind, value = self.tokens[self.at]
            marks: dict[object, tuple[int, int | None]] = {
                "?": (0, 1),
                "*": (0, None),
                "+": (1, None),
            }
            if kind == "mark" and value in marks:
                self.at += 1
                return marks[value]
            if kind == "times":
                self.at += 1
                assert isinstance(value, tuple)
                return value
        return (1, 1)

    def _repeated(
        self, part: tuple[Symbol, ...], least: int, most: int | None
    ) -> tuple[Symbol, ...]:
        if most is None:
            name = self._named([])
            self.rules[name] = [(), (*part, name)]
            return (*part * least, name)
        if not least <= most <= _MOST_REPEATS or most == 0:
            raise LarcError(
                f"rule {self.name!r} of the grammar repeats {least} to {most} times; give at most "
                f"{_MOST_REPEATS}, and no fewer than the least."
            )
        rest: tuple[Symbol, ...] = ()
        for _ in range(most - least):
            rest = (self._named([(), (*part, *rest)]),)
        return (*part * least, *rest)

    def _named(self, choices: list[tuple[Symbol, ...]]) -> str:
        name = f"{self.name}/{len(self.rules)}"
        self.rules[name] = choices
        return name


def _lexed(body: str, name: str) -> Iterator[tuple[str, object]]:
    at = 0
    while at < len(body):
        match = _TOKEN.match(body, at)
        if match is None:
            raise LarcError(f"rule {name!r} of the grammar cannot be read at {body[at:][:20]!r}.")
        text, members, word, least, most, mark = match.groups()
        if text is not None:
            yield "text", _unescaped(text)
        elif members is not None:
            yield "set", members
        elif word is not None:
            yield "name", word
        elif least is not None:
            upper = int(least) if most is None else int(most) if most else None
            yield "times", (int(least), upper)
        else:
            yield "mark", mark
        at = match.end()


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)


def _members(inside: str, name: str) -> Iterator[str]:
    characters = [
        (_unescaped(part), len(part) > 1) for part in re.findall(r"\\.|[^\\]", inside, re.DOTALL)
    ]
    index = 0
    while index < len(characters):
        first = characters[index][0]
        if index + 2 < len(characters) and characters[index + 1] == ("-", False):
            last = characters[index + 2][0]
            if last < first:
                raise LarcError(f"rule {name!r} of the grammar has the empty range {first}-{last}.")
            yield from map(chr, range(ord(first), ord(last) + 1))
            index += 3
        else:
            yield first
            index += 1


def _quoted(text: str) -> str:
    for plain, escaped in (
        ("\\", r"\\"),
        ('"', r"\""),
        ("\n", r"\n"),
        ("\r", r"\r"),
        ("\t", r"\t"),
    ):
        text = text.replace(plain, escaped)
    return f'"{text}"'
