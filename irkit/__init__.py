"""irkit: a tensor program as an immutable value.

graph = lowering.lower(model, args)         # torch in (the package `lowering` imports torch, this one does not)
print(graph)                                # text that parses back: irkit.parse(str(graph)) == graph
irkit.verify(passes.optimize(graph))        # numbered laws
program = irkit.to_onnx(model, args)        # all of it in one call
"""

from typing import TYPE_CHECKING, Any

import irkit_command  # first: `python -m irkit` can be interrupted from here on  # noqa: F401
from irkit.build import call, call_graph, closed, const, custom, dim_scalar, op, shape_vector
from irkit.checking.comparison import Difference, Tolerance, compare
from irkit.checking.rules import check
from irkit.core.blobs import Blob, blob
from irkit.core.freeze import freeze
from irkit.core.ir import Fact, Graph, Port, Signature, Value, constant, item, param, substitute
from irkit.core.origins import Origin
from irkit.core.printer import print_graph
from irkit.core.types import DType, Optional, Sequence, Tensor, Tuple, Type, tensor
from irkit.dims import Range, fresh, symbol
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
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.load import load
from irkit.onnx.writing.models import to_proto
from irkit.pattern import hole
from irkit.rewriting.face import Match, Rule, Rules, decline, explain, rewrite, rule
from irkit.rewriting.numbering import share
from irkit.rewriting.passes import Pass, checked, fixpoint, graph_pass, in_bodies, record, rules_pass, sequence, when
from irkit.text.files import load_text, save_text
from irkit.text.parser import parse
from irkit.verification.laws import verify

if TYPE_CHECKING:
    from irkit.doors.to_onnx import save, to_onnx

__all__ = [
    "AbsentError",
    "Blob",
    "ContractError",
    "DType",
    "Difference",
    "DimensionError",
    "EvaluateError",
    "Fact",
    "Graph",
    "GraphError",
    "IrkitError",
    "LoadError",
    "Match",
    "Optional",
    "Origin",
    "ParseError",
    "Pass",
    "Port",
    "Range",
    "RewriteError",
    "Rule",
    "Rules",
    "Sequence",
    "SerializeError",
    "Signature",
    "StaleError",
    "Tensor",
    "Tolerance",
    "Tuple",
    "Type",
    "TypeRuleError",
    "Value",
    "VerifyError",
    "blob",
    "call",
    "call_graph",
    "check",
    "checked",
    "closed",
    "compare",
    "const",
    "constant",
    "custom",
    "decline",
    "dim_scalar",
    "evaluate",
    "explain",
    "fixpoint",
    "freeze",
    "fresh",
    "graph_pass",
    "hole",
    "in_bodies",
    "item",
    "load",
    "load_text",
    "op",
    "param",
    "parse",
    "print_graph",
    "record",
    "rewrite",
    "rule",
    "rules_pass",
    "save",
    "save_text",
    "sequence",
    "shape_vector",
    "share",
    "substitute",
    "symbol",
    "tensor",
    "to_onnx",
    "to_proto",
    "verify",
    "when",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The doors on the roof: `to_onnx`, which brings in torch when it is called, and `save`, which asks the packages
    above what a target runs."""
    if name in ("save", "to_onnx"):
        from importlib import import_module

        return getattr(import_module("irkit.doors.to_onnx"), name)
    raise AttributeError(f"module 'irkit' has no attribute {name!r}")
