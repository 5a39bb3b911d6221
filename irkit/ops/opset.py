"""The constructors of ONNX's operators by name; `opset.pyi`, made by `irkit.ops.stubs`, lists them for editors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irkit.ops.descriptions import describe_constructor
from irkit.ops.runtime_table import CONTRIB, contrib_names
from irkit.ops.schemas import names

Constructor = Callable[..., Any]
"""What builds a value, or several, of an operator."""


class Operators:
    """`op.Gemm(a, b, c, transB=1)`: every ONNX operator as a function from values to a value.

    `construct(name, operands, attributes, outputs=n)` is what makes the value: `irkit.build.call`. Operators of ONNX
    Runtime's own are found under `op.com_microsoft`.
    """

    _construct: Constructor
    _prefix: str

    def __init__(self, construct: Constructor, domain: str = "") -> None:
        self.__dict__["_construct"] = construct
        self.__dict__["_prefix"] = f"{domain}::" if domain else ""

    def __getattr__(self, name: str) -> Constructor:
        if name.startswith("_"):
            raise AttributeError(name)
        construct, full = self._construct, self._prefix + name
        if full == "com_microsoft":
            self.__dict__[name] = Operators(construct, CONTRIB)
            return self.__dict__[name]

        def operator(*inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
            return construct(full, inputs, attributes, outputs=outputs)

        self.__dict__[name] = describe_constructor(operator, name, full)
        return operator  # found without __getattr__ from now on; the same function every time

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(contrib_names() if self._prefix else (*names(), "com_microsoft"))]
