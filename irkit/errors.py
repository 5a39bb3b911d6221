"""Every error irkit raises on purpose: one sentence, the IR, the user's line, and what to try."""

from __future__ import annotations


class IrkitError(Exception):
    """An error in four parts: what is wrong, the line of IR, the line of the user's model, and what to try."""

    advice = ""
    """What to try where the raiser gives no hint."""

    def __init__(self, what: str, *, ir: str = "", source: str = "", hint: str = "") -> None:
        self.what, self.ir, self.source, self.hint = what, ir, source, hint
        super().__init__(what)

    def __str__(self) -> str:
        parts = [self.what]
        if self.ir:
            parts.append("  in the graph:\n" + indent(self.ir))
        if self.source:
            parts.append("  in your model:\n" + indent(self.source))
        if self.hint or self.advice:
            parts.append("  try: " + (self.hint or self.advice))
        return printable("\n".join(parts))

    def located(self, *, ir: str = "", source: str = "", hint: str = "") -> IrkitError:
        """The same error with the parts that the raiser could not know filled in; parts it knew are kept."""
        return type(self)(self.what, ir=self.ir or ir, source=self.source or source, hint=self.hint or hint)


class DimensionError(IrkitError, ValueError):
    """A dimension expression is malformed, or a question about one was asked that has no answer."""


class TypeRuleError(IrkitError, TypeError):
    """An operator was given operands, attributes or bodies that its ONNX type rule refuses."""


class GraphError(IrkitError, ValueError):
    """Values that do not form a closed, well-formed graph."""


class VerifyError(IrkitError, ValueError):
    """A graph breaks one of the numbered laws of `irkit.verify`."""


class ParseError(IrkitError, ValueError):
    """Text that is not an irkit graph."""

    advice = "see how graphs are written in docs/understand/grammar.md, or compare with str(graph) of a graph like it"


class LoadError(IrkitError, ValueError):
    """An ONNX model that irkit cannot read."""

    advice = "onnx.checker.check_model says more where the model itself is wrong: write it again, or mend that node"


class SerializeError(IrkitError, ValueError):
    """A graph that cannot be written as the ONNX model asked for."""

    advice = "irkit.verify(graph) says whether the graph is right; passes.legalize rewrites what an opset lacks"


class EvaluateError(IrkitError, ValueError):
    """The evaluator was given feeds that do not fit the graph, or met an operator without a kernel; or ONNX Runtime
    failed on a program's inputs."""


class AbsentError(IrkitError, ValueError):
    """The numbers of a constant were asked for that has none: a weight of a model that was built without memory."""


class StaleError(IrkitError, RuntimeError):
    """A content was asked for that is no longer what it was when the graph was made: somebody wrote into the tensor,
    the array or the file that holds it."""


class RewriteError(IrkitError, ValueError):
    """A rule or pass produced something that breaks its contract."""


class ContractError(IrkitError, ValueError):
    """A program was called with inputs that its guards or ranges exclude."""


def printable(text: str) -> str:
    """The text with lone surrogates, which no terminal or file takes, written as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def indent(text: str, by: str = "    ") -> str:
    """`text` with every line moved right."""
    return "\n".join((by + line).rstrip() for line in text.splitlines())
