"""Types, dimensions, attributes and constants: what stands within a line of text."""

from __future__ import annotations

import math
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.core.attributes import Attributes
from irkit.core.blobs import Blob, blob
from irkit.core.literals import array_of, finite, unquoted_bytes
from irkit.core.types import ELEMENT_NAMES, DType, Optional, Sequence, Tensor, Tuple, Type
from irkit.dims import Dim, notation
from irkit.errors import DimensionError
from irkit.support.counts import count_text
from irkit.support.tracebacks import is_told
from irkit.text.contents import Contents
from irkit.text.lexer import Cursor, Token

__tracebackhide__ = is_told

LEFT_OUT = "parse(text, blobs) takes a graph, a mapping, or the file beside; graph.text() writes up to 1 KiB of each"
"""What is done about a content that is named only."""

DEPTH = 64
"""How deep graphs, types and lists may be nested."""

ELEMENTS = 1 << 20
"""How many elements a constant may have in the text."""


@attrs.define(eq=False)
class Atoms:
    """Reads them off a cursor, and remembers what it has read: equal texts give one object.

    `signed` holds the symbols that were declared signed; every other name is that of a size.
    """

    contents: Contents
    signed: dict[str, sympy.Symbol] = attrs.field(factory=dict[str, sympy.Symbol])
    fresh: dict[str, sympy.Symbol] = attrs.field(factory=dict[str, sympy.Symbol])
    dims: dict[str, Dim] = attrs.field(factory=dict[str, Dim])
    types: dict[str, Tensor] = attrs.field(factory=dict[str, Tensor])

    def type(self, c: Cursor, depth: int = 0) -> Type:
        """f32[batch, 64], seq(...), opt(...), or several in parentheses."""
        if depth > DEPTH:
            c.fail(f"types are nested more than {DEPTH} deep")
        token = c.take()
        if token.kind == "(":
            return Tuple(tuple(c.separated(lambda: self.type(c, depth + 1), ")")))
        if token.kind == "word" and token.text in ("seq", "opt"):
            c.expect("(")
            element = self.type(c, depth + 1)
            c.expect(")")
            return Sequence(element) if token.text == "seq" else Optional(element)
        if token.kind != "word" or token.text not in ELEMENT_NAMES:
            c.fail(
                f"`{token.text}` is not a type", token, hint="write f32[batch, 64], seq(...), opt(...) or (..., ...)"
            )
        opening = c.expect("[")
        close = self.closing(c, "[", "]")
        text = c.line[token.column : close.column]
        known = self.types.get(text)
        if known is None:
            shape = self.dim_list(c, opening.column + 1, close.column)
            if any(type(d) is int and d < 0 for d in shape):
                c.fail("a dimension is below zero", token)
            known = self.types[text] = Tensor(ELEMENT_NAMES[token.text], shape)
        return known

    def closing(self, c: Cursor, opening: str, close: str) -> Token:
        """The bracket that closes the one just taken, taken too."""
        depth = 1
        while depth:
            token = c.take()
            if token.kind in ("end", "bad", "=", "{"):
                c.fail(f"`{close}` is missing", token)
            depth += (token.kind == opening) - (token.kind == close)
        return c.tokens[c.at - 1]

    def dim_list(self, c: Cursor, start: int, stop: int) -> tuple[Dim, ...]:
        """The dimensions between two columns of the line, which commas outside of parentheses divide."""
        inside = [t for t in c.tokens if start <= t.column < stop]
        found: list[Dim] = []
        depth, begin = 0, start
        for token in inside:
            depth += (token.kind == "(") - (token.kind == ")")
            if token.kind == "," and depth == 0:
                found.append(self.dim(c, begin, token.column))
                begin = token.column + 1
        return (*found, self.dim(c, begin, stop)) if inside else ()

    def dim(self, c: Cursor, start: int, stop: int) -> Dim:
        """One dimension."""
        source = c.line[start:stop].strip()
        known = self.dims.get(source)
        if known is not None:
            return known
        if source.isdecimal() and source.isascii() and len(source) < 19:
            return int(source)
        tokens = [t for t in c.tokens if start <= t.column < stop]
        unknowns = [t for t in tokens if t.kind == "fresh"]
        for text in sorted({t.text for t in unknowns}, key=lambda t: (len(t), t)):
            self.fresh.setdefault(text, dims.fresh())
        text = c.line[start:stop]
        for token in reversed(unknowns):  # Python's grammar has no `?0`: to it, this is a string
            begin = token.column - start
            text = f'{text[:begin]}"\\0{token.text}"{text[begin + len(token.text) :]}'
        names = {**self.signed, **{f"\0{t.text}": self.fresh[t.text] for t in unknowns}}
        try:
            found = self.dims[source] = notation.parse(text, names)
        except DimensionError as error:
            where = Token("dim", source, tokens[0].column if tokens else start)
            c.fail(f"`{source[:80]}` is not a dimension", where, hint=error.hint or "write it like 2*batch + seq // 2")
        return found

    # -- attributes

    def attributes(self, c: Cursor) -> Attributes:
        """axis = 1, perm = [0, 1]}, sorted by name"""
        found: dict[str, Any] = {}

        def read() -> None:
            token = c.peek()
            name = c.name("the name of an attribute")
            if name in found:
                c.fail(f"attribute {name} is given twice", token)
            c.expect("=")
            found[name] = self.attribute(c)

        c.separated(read, "}")
        return tuple(sorted(found.items()))

    def attribute(self, c: Cursor, depth: int = 0) -> Any:
        """One attribute value."""
        token = c.peek()
        if depth > DEPTH:
            c.fail(f"lists are nested more than {DEPTH} deep")
        if token.kind == "number":
            c.take()
            return self.number(c, token)
        if token.kind == "string":
            return c.string()
        if token.kind == "bytes":
            return self.byte_string(c)
        if c.accept("["):
            return tuple(c.separated(lambda: self.attribute(c, depth + 1), "]"))
        if token.kind == "<" or c.accept("word", "dim"):
            opening = c.expect("<")
            found = self.dim_list(c, opening.column + 1, self.closing(c, "<", ">").column)
            return found if token.kind == "<" else found[0] if len(found) == 1 else c.fail("one dimension", token)
        type_ = self.type(c)
        return type_ if c.peek().kind in (",", "}", "]", "end") else self.blob(c, type_)

    def number(self, c: Cursor, token: Token) -> int | float:
        """An int, or a float where the text has a point, an exponent, or is not a finite number."""
        try:
            return int(token.text) if token.text.lstrip("+-").isdecimal() else finite(token.text)
        except ValueError as error:
            c.fail(str(error) if len(token.text) < 40 else "the number is too large", token)

    def byte_string(self, c: Cursor) -> bytes:
        """b"..." """
        token = c.expect("bytes")
        try:
            return unquoted_bytes(token.text)
        except ValueError:
            c.fail("the byte string has a malformed escape", token)

    # -- constants

    def blob(self, c: Cursor, type_: Type) -> Blob:
        """The content of a constant of that type, and its public name behind `as`."""
        start = c.peek()
        if not isinstance(type_, Tensor) or not type_.is_static:
            c.fail(f"a constant cannot be a {type_!r}", c.tokens[0], hint="its type is a tensor of known dimensions")
        label = c.accept("hash") or c.accept("word", "blob")
        if label is not None:
            key = label.text if label.kind == "hash" else self.blob_label(c)
            name = (
                c.string() if c.accept("word", "as") else key if isinstance(key, str) and label.text == "blob" else ""
            )
            try:
                return self.contents(key, name, type_)
            except LookupError as error:
                c.fail(str(error.args[0]), start, hint=LEFT_OUT)
        shape = tuple(int(d) for d in type_.shape)
        elements = self.elements(c, type_.dtype, shape)
        name = c.string() if c.accept("word", "as") else ""
        try:
            return blob(array_of(elements, type_.dtype, shape), type_.dtype, name)
        except (ValueError, TypeError) as error:
            c.fail(str(error), start)

    def blob_label(self, c: Cursor) -> str | int:
        """The name or the number that stands for a content left out."""
        return c.string() if c.peek().kind == "string" else c.integer()

    def elements(self, c: Cursor, dtype: DType, shape: tuple[int, ...]) -> list[Any]:
        """The elements, in order; brackets only group them."""
        count = math.prod(shape)
        if count > ELEMENTS:
            c.fail(
                f"a constant of {count_text(count, 'element')} is too large for the text",
                hint="hand it in: parse(text, blobs)",
            )
        if c.accept("word", "fill"):
            return [self.element(c, dtype)] * count
        found: list[Any] = []
        depth = 0
        while True:
            if c.accept("["):
                depth += 1
            elif c.accept("]"):
                depth -= 1
            else:
                found.append(self.element(c, dtype))
            if depth <= 0:
                return found
            if c.peek(-1).kind != "[" and c.peek().kind != "]":
                c.expect(",")

    def element(self, c: Cursor, dtype: DType) -> Any:
        """One element, as `array_of` takes it."""
        if dtype is DType.STRING:
            return self.byte_string(c) if c.peek().kind == "bytes" else c.string()
        if dtype is DType.BOOL:
            return c.expect("word").text
        if dtype.is_complex:
            c.expect("(")
            real = c.expect("number").text
            c.expect(",")
            imaginary = c.expect("number").text
            c.expect(")")
            return real, imaginary
        return c.expect("number").text
