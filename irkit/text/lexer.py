"""A line of text as tokens, and the cursor that the parser moves over them; errors that show the place."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import attrs

from irkit.core.literals import unquoted_text
from irkit.errors import ParseError
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

WIDTH = 160
"""A longer line is cut around the error."""

_TOKEN = re.compile(
    r"""[ \t\r]+
    | (?P<comment>\#.*)
    | (?P<value>%(?:[0-9]+|[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*"))
    | (?P<bytes>b"(?:[^"\\]|\\.)*")
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<hash>blob\#[0-9a-f]+)
    | (?P<number>[-+]?(?:0x[0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?d?|(?:inf|nan)(?![A-Za-z0-9_])))
    | (?P<word>[A-Za-z_][A-Za-z0-9_.]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)
    | (?P<label>@[0-9]+)
    | (?P<fresh>\?[0-9]+)
    | (?P<mark>[()\[\]{}<>=,:*/+%-])
    | (?P<bad>.)""",
    re.VERBOSE,
)

WHAT = {
    "value": "a value like %x", "string": 'a string like "x"', "number": "a number", "word": "a name",
    "end": "the end of the line", "label": "a label like @0",
}  # fmt: skip
"""What each kind of token is called in errors."""


class Token(NamedTuple):
    """One token: its kind (the mark itself for punctuation), its text, and the column where it begins, from 0."""

    kind: str
    text: str
    column: int


def tokens_of(line: str) -> list[Token]:
    """The tokens of a line, the comment left out; one of kind "bad" for a character that begins none."""
    found: list[Token] = []
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup
        if kind is None:
            continue
        if kind == "comment":
            break
        text = match.group()
        found.append(Token(text if kind == "mark" else kind, text, match.start()))
    return found


@attrs.define(eq=False)
class Cursor:
    """The tokens of line number `number` (from 0), read from left to right."""

    lines: Sequence[str]
    number: int
    tokens: list[Token] = attrs.field(init=False)
    at: int = 0

    def __attrs_post_init__(self) -> None:
        self.tokens = tokens_of(self.lines[self.number])

    @property
    def line(self) -> str:
        """The whole line."""
        return self.lines[self.number]

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes next, or further on; one of kind "end" behind the last."""
        i = self.at + ahead
        return self.tokens[i] if i < len(self.tokens) else Token("end", "", len(self.line.rstrip()))

    def take(self) -> Token:
        """The next token, which is then behind the cursor."""
        token = self.peek()
        self.at += 1
        return token

    def expect(self, kind: str, why: str = "") -> Token:
        """The next token, which must be of that kind."""
        token = self.take()
        if token.kind != kind:
            found = f"`{token.text}`" if token.text else "the end of the line"
            self.fail(f"expected {WHAT.get(kind, f'`{kind}`')}, and found {found}", token, hint=why)
        return token

    def accept(self, kind: str, text: str | None = None) -> Token | None:
        """The next token, taken, where it is of that kind (and text); else None."""
        token = self.peek()
        if token.kind != kind or (text is not None and token.text != text):
            return None
        self.at += 1
        return token

    def separated(self, read: Callable[[], Any], close: str) -> list[Any]:
        """What `read` reads, again and again with commas between, up to the mark `close`, which is taken too."""
        found: list[Any] = []
        while self.accept(close) is None:
            if found:
                self.expect(",")
            found.append(read())
        return found

    def name(self, what: str) -> str:
        """A word, or any text in quotes."""
        token = self.take()
        if token.kind == "string":
            return self.unquote(token)
        if token.kind != "word":
            found = f"`{token.text}`" if token.text else "the end of the line"
            self.fail(f"expected {what}, and found {found}", token, hint="names that are no identifiers need quotes")
        return token.text

    def plain(self, token: Token) -> str:
        """The public name that the name of a value spells."""
        return self.unquote(token._replace(text=token.text[1:])) if '"' in token.text else token.text[1:]

    def string(self) -> str:
        """A text in quotes."""
        return self.unquote(self.expect("string"))

    def unquote(self, token: Token) -> str:
        """What stands between quotes."""
        try:
            return unquoted_text(token.text)
        except ValueError:
            self.fail("the string has a malformed escape", token, hint="strings are written as in JSON")

    def integer(self) -> int:
        """A whole number."""
        token = self.expect("number")
        try:
            return int(token.text)
        except ValueError:
            self.fail(f"`{token.text[:40]}` is not a whole number", token)

    def fail(self, what: str, token: Token | None = None, hint: str = "") -> NoReturn:
        """Raises the ParseError that shows the line, the token underlined, and the lines around."""
        where = token if token is not None else self.peek()
        place = f"line {self.number + 1}, column {where.column + 1}"
        shown = show(self.lines, self.number, where.column, max(len(where.text), 1))
        raise ParseError(f"{place}: {what}", ir=shown, hint=hint)


def show(lines: Sequence[str], number: int, column: int, length: int, around: int = 2) -> str:
    """Line `number` with `length` characters from `column` on underlined, between its neighbours."""
    start = max(0, column - WIDTH // 2) if len(lines[number]) > WIDTH else 0
    out: list[str] = []
    for i in range(max(0, number - around), min(len(lines), number + around + 1)):
        text = lines[i].replace("\t", " ")
        cut = text[start : start + WIDTH] if i == number else text[:WIDTH]
        out.append(f"{i + 1:5} | {cut}")
        if i == number:
            marks = "^" * max(1, min(length, WIDTH - (column - start)))
            out.append(" " * (8 + column - start) + marks)
    return "\n".join(out)
