"""Types as text: `f32[batch, 4]`, `seq(f32[n])`, as they stand in the text of a graph."""

from __future__ import annotations

from irkit.core.types import Type, require_type
from irkit.errors import ParseError, TypeRuleError
from irkit.support.arguments import brief
from irkit.text.atoms import Atoms
from irkit.text.contents import contents_of
from irkit.text.lexer import Cursor


def type_of(given: object) -> Type:
    """The type that a text names, `type_of("f32[batch, 4]")`, or a type as it is. An element type has any of its names,
    a size is a number, a name, or an expression over names; `seq(...)` and `opt(...)` hold a type.

    Raises TypeRuleError for anything else.
    """
    if not isinstance(given, str):
        if not hasattr(given, "__attrs_attrs__"):
            raise TypeRuleError(f"{brief(given)} is not a type", hint='write "f32[batch, 4]"')
        require_type(given)
        return given  # pyright: ignore[reportReturnType]  # which is a type
    try:
        cursor = Cursor([given], 0)
        found = Atoms(contents_of(None)).type(cursor)
        cursor.expect("end")
    except ParseError as error:
        raise TypeRuleError(
            f"{given!r} is not a type", ir=error.ir or error.what, hint='write "f32[batch, 4]"'
        ) from None
    require_type(found)
    return found
