"""Text as a graph: reads what `irkit.core.printer` writes, line by line. docs/understand/grammar.md holds the grammar.

The types are those of the text; `irkit.verify` is what checks them. Text may come from anywhere: what it can ask for is
bounded in size, in depth and in numbers, and whatever is wrong with it is a ParseError.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import attrs
from pyrsistent import pmap

from irkit import dims
from irkit.core import ir
from irkit.core.attributes import Attributes
from irkit.core.ir import Fact, Graph, Port, Signature, Value
from irkit.core.operator_names import Dialects, Named, named_in
from irkit.core.printer import BODY_WORDS, UNNAMED
from irkit.core.types import Type
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.dims import Range
from irkit.dims.ranges import LEAST
from irkit.errors import ParseError
from irkit.support.arguments import brief
from irkit.support.tracebacks import is_told
from irkit.text.atoms import DEPTH, Atoms
from irkit.text.attributes import Schemas, operands_given
from irkit.text.contents import contents_of
from irkit.text.lexer import Cursor, Token

__tracebackhide__ = is_told

CHARACTERS = 1 << 29
"""Longer texts are refused."""

ROLES = ("input", "state", "param")


def parse(text: str, blobs: object = None, *, dialects: Dialects = None) -> Graph:
    """The graph that a text stands for.

    Args:
        text: what `graph.text()` returns, or by hand; `graph name {` and `}` around it may be left out.
        blobs: the contents that the text only names: a graph that holds them, a mapping from name, number or hash to
            arrays or blobs, or the path of the file that `irkit.save_text` wrote beside.
        dialects: operators of your own (`irkit.dialect`), which the names in the text mean: one of them, or several.

    Raises ParseError, with the line underlined, for anything else.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParseError(
            f"the text of a graph is {brief(text)}, and must be a str",
            hint="irkit.load_text reads a file; bytes are decoded first",
        )
    if len(text) > CHARACTERS:
        raise ParseError(f"a text of more than {CHARACTERS} characters is refused")
    lines = text.split("\n")
    reader = _Reader(lines, Atoms(contents_of(blobs)), named_in(dialects))
    try:
        for number in range(len(lines)):
            cursor = Cursor(lines, number)
            if cursor.tokens:
                reader.statement(cursor)
    except RecursionError as error:
        raise ParseError("the text is nested too deep") from error
    return reader.finished()


@attrs.define(eq=False)
class _Frame:
    """A graph whose closing brace is still to come, and the value among whose bodies it will be."""

    name: str
    label: str = ""
    names: dict[str, Value] = attrs.field(factory=dict[str, Value])
    params: list[Value] = attrs.field(factory=list[Value])
    ports: list[Port | None] = attrs.field(factory=list[Port | None])
    results: list[Value] = attrs.field(factory=list[Value])
    result_ports: list[Port | None] = attrs.field(factory=list[Port | None])
    symbols: dict[str, Range] = attrs.field(factory=dict[str, Range])
    facts: list[Fact] = attrs.field(factory=list[Fact])
    metadata: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])
    pending: _Pending | None = None
    returned: bool = False

    def graph(self) -> Graph:
        """The graph, now that it is whole."""
        signature = Signature(named(self.ports), named(self.result_ports), tuple(self.facts), tuple(self.metadata))
        return Graph(tuple(self.params), tuple(self.results), pmap(self.symbols), signature, self.name)


@attrs.define(eq=False)
class _Pending:
    """A value that waits for its bodies."""

    name: Token
    type: Type
    op: str
    inputs: tuple[Value | None, ...]
    attributes: Attributes
    bodies: list[Graph] = attrs.field(factory=list[Graph])


def named(ports: list[Port | None]) -> tuple[Port, ...]:
    """The ports up to the last that there is."""
    return tuple(p for p in ports if p is not None)


@attrs.define(eq=False)
class _Reader:
    """The state of one reading."""

    lines: list[str]
    atoms: Atoms
    operators: Mapping[str, Named]
    frames: list[_Frame] = attrs.field(factory=list[_Frame])
    done: Graph | None = None
    braces: bool = True
    labels: dict[str, Graph] = attrs.field(factory=dict[str, Graph])
    schemas: Schemas = attrs.field(factory=Schemas)

    # -- statements

    def statement(self, c: Cursor) -> None:
        """Reads one line."""
        first = c.peek()
        if self.done is not None:
            c.fail("the graph has ended before this line", hint="one text holds one graph")
        if not self.frames:
            if first.kind == "word" and first.text == "graph":
                c.take()
                self.open(c, _Frame(c.name("the name of the graph")))
                return
            self.braces = False
            self.frames.append(_Frame("graph"))
        frame = self.frames[-1]
        if first.kind == "value":
            self.value_line(c, frame)
        elif first.kind == "}":
            self.close(c)
        elif first.kind == "word" and first.text in ROLES:
            self.param_line(c, frame)
        elif first.kind == "word" and first.text in ("symbol", "fact", "metadata", "return"):
            getattr(self, f"{first.text}_line")(c, frame)
            self.end(c)
        else:
            c.fail(f"no line begins with `{first.text}`", hint="values begin with %, other lines with a word")

    def end(self, c: Cursor) -> None:
        """Raises where the line goes on."""
        if c.peek().kind != "end":
            c.fail(f"`{c.peek().text}` is left over at the end of the line")

    def open(self, c: Cursor, frame: _Frame) -> None:
        """Begins a graph, whose lines follow."""
        c.expect("{")
        self.end(c)
        if len(self.frames) >= DEPTH:
            c.fail(f"graphs are nested more than {DEPTH} deep")
        self.frames.append(frame)

    def close(self, c: Cursor) -> None:
        """Ends the innermost graph."""
        brace = c.take()
        if len(self.frames) == 1 and not self.braces:
            c.fail("there is no graph for this brace to close", brace)
        frame = self.frames.pop()
        if not frame.returned:
            c.fail("the graph ends without a `return` line", brace)
        graph = frame.graph()
        if frame.label:
            self.labels[frame.label] = graph
        if not self.frames:
            self.end(c)
            self.done = graph
            return
        outer = self.frames[-1]
        if outer.pending is not None:
            outer.pending.bodies.append(graph)
            self.bodies(c, outer, outer.pending)

    def finished(self) -> Graph:
        """The graph, at the end of the text."""
        if self.done is not None:
            return self.done
        if not self.frames:
            raise ParseError("the text holds no graph", hint="print(graph) shows what one looks like")
        if self.braces or len(self.frames) > 1 or not self.frames[0].returned:
            missing = "`}`" if self.braces or len(self.frames) > 1 else "a `return` line"
            raise ParseError(f"line {len(self.lines)}: the text ends before {missing}", ir=self.lines[-1])
        return self.frames[0].graph()

    def symbol_line(self, c: Cursor, frame: _Frame) -> None:
        """symbol batch in [1, inf] signed; from -inf for a number of the data"""
        c.take()
        token = c.peek()
        name = c.name("the name of the symbol")
        if c.accept("word", "in"):
            if name in frame.symbols:
                c.fail(f"the symbol {name} is declared twice", token)
            c.expect("[")
            low = LEAST if c.accept("number", "-inf") else c.integer()
            c.expect(",")
            high = None if c.accept("number", "inf") else c.integer()
            c.expect("]")
            if high is not None and high < low:
                c.fail(f"there is no size from {low} up to {high}", token)
            frame.symbols[name] = Range(low, high)
        if sign := c.accept("word", "signed"):
            if self.atoms.dims or not name:
                c.fail("a signed symbol is declared before the first line that has a type", sign)
            self.atoms.signed[name] = dims.symbol(name, signed=True)

    def fact_line(self, c: Cursor, frame: _Frame) -> None:
        """fact guard "batch != 3" from "nn.py:41" """
        c.take()
        kind, text = c.name("the kind of the fact"), c.string()
        frame.facts.append(Fact(kind, text, c.string() if c.accept("word", "from") else ""))

    def metadata_line(self, c: Cursor, frame: _Frame) -> None:
        """metadata torch = "2.13" """
        c.take()
        key = c.name("a key")
        c.expect("=")
        frame.metadata.append((key, c.string()))

    def return_line(self, c: Cursor, frame: _Frame) -> None:
        """return %0 as logits, %1 as "new cache" role state binds cache"""
        c.take()
        frame.returned = True
        while c.peek().kind != "end":
            token = c.expect("value")
            frame.results.append(self.known(c, frame, token))
            self.add_port(c, frame.result_ports, self.port(c, "", "output"))
            if not c.accept(","):
                break

    def param_line(self, c: Cursor, frame: _Frame) -> None:
        """input %x: f32[batch, 64] as "x.1" """
        role = c.take().text
        token = c.expect("value")
        if len(frame.names) != len(frame.params) or frame.returned:
            c.fail("parameters come before the other values", token)
        c.expect(":")
        value = Value(PARAM, (), (), (), self.atoms.type(c))
        self.define(c, frame, token, value)
        frame.params.append(value)
        given = role != "param"
        port = self.port(c, c.plain(token), role)
        self.add_port(c, frame.ports, Port(c.plain(token), role) if port is None and given else port)
        self.end(c)

    def add_port(self, c: Cursor, ports: list[Port | None], port: Port | None) -> None:
        """Adds a port, of which there may be none from some place on."""
        if port is not None and ports and ports[-1] is None:
            c.fail("a value without a public name stands before this one", hint="name all, or the first ones")
        ports.append(port)

    def port(self, c: Cursor, name: str, role: str) -> Port | None:
        """as "x" role state binds "cache": all of it may be missing; None where it is."""
        start, binds, token = c.at, "", c.peek()
        if c.accept("word", "as"):
            name = c.name("a public name")
        if c.accept("word", "role"):
            token = c.peek()
            token = c.peek()
            role = c.name("a role")
        if c.accept("word", "binds"):
            binds = c.name("the name of a state parameter")
        if c.at == start:
            return None
        if role not in ir.ROLES:
            c.fail(f"a port has no role {role!r}", token, hint=f"the roles are {', '.join(ir.ROLES)}")
        return Port(name, role, binds)

    # -- values

    def value_line(self, c: Cursor, frame: _Frame) -> None:
        """%3: f32[batch, 64] = Gemm(%x, %w, %b) {transB = 1}"""
        name = c.take()
        if frame.returned:
            c.fail("this value stands behind the `return` line", name)
        c.expect(":", why="every value has its type: %0: f32[2] = ...")
        type_ = self.atoms.type(c)
        c.expect("=")
        op = c.name("an operator")
        if op in self.operators:
            op = self.operators[op].name
        if op == CONSTANT and (c.peek().kind != "(" or c.peek(1).kind == "number"):  # (1.0, 2.0) is a complex number
            value = Value(CONSTANT, (), (("value", self.atoms.blob(c, type_)),), (), type_)
            self.define(c, frame, name, value)
            self.end(c)
            return
        if op == PARAM:
            c.fail("a parameter has a line of its own kind", name, hint="input %x: f32[2]")
        c.expect("(")
        inputs = tuple(c.separated(lambda: self.operand(c, frame), ")"))
        attributes = self.atoms.attributes(c) if c.accept("{") else ()
        self.bodies(c, frame, _Pending(name, type_, op, inputs, attributes))

    def bodies(self, c: Cursor, frame: _Frame, pending: _Pending) -> None:
        """The bodies of a value, up to one whose lines follow, or to the end of the line."""
        while word := c.accept("word"):
            words = BODY_WORDS.get(pending.op, ())
            i = len(pending.bodies)
            if word.text != (words[i] if i < len(words) else UNNAMED):
                c.fail(f"`{word.text}` is not a body of {pending.op}", word)
            label = c.accept("label")
            if label is not None and label.text in self.labels and c.peek().kind != "{":
                pending.bodies.append(self.labels[label.text])
                continue
            title = UNNAMED if c.peek().kind == "{" else c.name("`{`")
            if label is not None and label.text in self.labels:
                c.fail(f"the body {label.text} is given twice", label)
            frame.pending = pending
            self.open(c, _Frame(title, label.text if label else ""))
            return
        self.end(c)
        p = pending
        frame.pending = None
        attributes = self.schemas.settled(p.op, p.attributes)
        self.define(c, frame, p.name, Value(p.op, operands_given(p.inputs), attributes, tuple(p.bodies), p.type))

    def define(self, c: Cursor, frame: _Frame, token: Token, value: Value) -> None:
        """Gives a value its name."""
        if token.text in frame.names:
            c.fail(f"{token.text} is defined twice", c.tokens[0] if token not in c.tokens else token)
        frame.names[token.text] = value

    def operand(self, c: Cursor, frame: _Frame) -> Value | None:
        """%x, or _ for an operand left out."""
        return None if c.accept("word", "_") else self.known(c, frame, c.expect("value"))

    def known(self, c: Cursor, frame: _Frame, token: Token) -> Value:
        """The value of that name."""
        found = frame.names.get(token.text)
        if found is None:
            near = difflib.get_close_matches(token.text, list(frame.names)[-1000:], n=1)
            hint = f"did you mean {near[0]}?" if near else "a body sees its own parameters only"
            c.fail(f"{token.text} is not defined above this line", token, hint=hint)
        return found
