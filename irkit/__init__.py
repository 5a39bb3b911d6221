"""irkit: a tensor program as an immutable value.

graph = lowering.lower(model, args)         # torch in (the package `lowering` imports torch, this one does not)
print(graph)                                # text; that of graph.text() reads back by irkit.parse
irkit.verify(passes.optimize(graph))        # numbered laws
program = irkit.to_onnx(model, args)        # all of it in one call
"""

from typing import TYPE_CHECKING, Any

# First: `python -m irkit` can be interrupted from here on, which is all that this import is for.
import irkit_command  # noqa: F401  # pyright: ignore[reportUnusedImport]
from irkit.support.uncollected import collector_paused

with collector_paused():
    from irkit.build import call, call_graph, closed, const, custom, dim_scalar, op, shape_vector
    from irkit.checking.comparison import Difference, Tolerance, compare
    from irkit.contract.as_json import contract_of
    from irkit.core.blobs import Blob, blob
    from irkit.core.freeze import freeze
    from irkit.core.ir import Fact, Graph, Port, Signature, Value, constant, item, substitute
    from irkit.core.origins import Origin
    from irkit.core.printer import print_graph
    from irkit.core.types import DType, Optional, Sequence, Tensor, Tuple, Type, tensor
    from irkit.dialects import Dialect, Operator, dialect, operator, runtime_dialect
    from irkit.dims import Range, fresh, symbol
    from irkit.doors.above import ABOVE, FOLDERS, found_above
    from irkit.errors import (
        AbsentError,
        ContractError,
        DimensionError,
        EvaluateError,
        GraphError,
        IrkitError,
        LoadError,
        ParseError,
        RewriteError,
        SerializeError,
        StaleError,
        TypeRuleError,
        VerifyError,
    )
    from irkit.evaluation.interpreter import trace
    from irkit.hand.functions import function, param
    from irkit.onnx.bind import bind
    from irkit.onnx.evaluate import evaluate
    from irkit.onnx.functions import as_function, call_function
    from irkit.onnx.load import load
    from irkit.onnx.writing.models import to_proto
    from irkit.pattern import hole, p
    from irkit.rewriting.face import Match, Rule, Rules, decline, explain, rewrite, rule
    from irkit.rewriting.numbering import share
    from irkit.rewriting.passes import (
        Pass,
        fixpoint,
        graph_pass,
        in_bodies,
        in_sequence,
        record,
        rules_pass,
        verified,
        when,
    )
    from irkit.text.files import load_text, save_text
    from irkit.text.parser import parse
    from irkit.text.types import type_of
    from irkit.verification.laws import verify

if TYPE_CHECKING:
    from irkit.checking.rules import check_rule
    from irkit.dialects.checks import check_operator
    from irkit.doors.above import (
        CaptureError,
        LoweringError,
        MissingConverters,
        Precision,
        Program,
        Target,
        compile,
        diff,
        grad,
        save,
        stats,
        to_onnx,
        viz,
    )
    from irkit.equations import Discovery, Equation, Proof, discover, equation, prove, replace_pattern

__all__ = [  # by what one wants to do
    # torch in, a checked ONNX program out
    "to_onnx",
    "compile",
    "Program",
    "Target",
    "Precision",
    # graphs in and out of files and text
    "load",
    "save",
    "to_proto",
    "parse",
    "print_graph",
    "load_text",
    "save_text",
    "bind",
    "as_function",
    # what a graph is made of
    "Graph",
    "Value",
    "Port",
    "Signature",
    "Fact",
    "Origin",
    "Blob",
    "blob",
    "freeze",
    # types and sizes
    "Type",
    "Tensor",
    "Sequence",
    "Optional",
    "Tuple",
    "DType",
    "tensor",
    "type_of",
    "Range",
    "symbol",
    "fresh",
    # values are built
    "op",
    "param",
    "const",
    "constant",
    "call",
    "call_function",
    "call_graph",
    "closed",
    "custom",
    "function",
    "dim_scalar",
    "item",
    "shape_vector",
    "share",
    "substitute",
    # seen
    "viz",
    "diff",
    # numbers, laws, conditions
    "evaluate",
    "trace",
    "compare",
    "Difference",
    "Tolerance",
    "verify",
    "grad",
    "contract_of",
    "stats",
    # rules
    "p",
    "hole",
    "rule",
    "decline",
    "Rule",
    "Rules",
    "Match",
    "rewrite",
    "explain",
    "check_rule",
    "equation",
    "Equation",
    "replace_pattern",
    "prove",
    "Proof",
    "discover",
    "Discovery",
    # operators of one's own
    "operator",
    "Operator",
    "dialect",
    "Dialect",
    "runtime_dialect",
    "check_operator",
    # passes
    "Pass",
    "graph_pass",
    "rules_pass",
    "in_sequence",
    "in_bodies",
    "fixpoint",
    "when",
    "verified",
    "record",
    # errors
    "IrkitError",
    "AbsentError",
    "CaptureError",
    "ContractError",
    "DimensionError",
    "EvaluateError",
    "GraphError",
    "LoadError",
    "LoweringError",
    "MissingConverters",
    "ParseError",
    "RewriteError",
    "SerializeError",
    "StaleError",
    "TypeRuleError",
    "VerifyError",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What stands above this package: looked up, with torch where that is needed, when it is first asked for."""
    if name in ABOVE or name in FOLDERS:
        return found_above(name)
    raise AttributeError(f"module 'irkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
