"""What a constructor cannot make is refused by it, with what to write instead: types, sizes, values, bodies, graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

import irkit
from irkit import DType, Graph, IrkitError, Port, Range, Signature, dims, op, param, symbol, tensor
from irkit.dims.validation import apart, size_of
from irkit.errors import DimensionError, GraphError, TypeRuleError
from irkit.nodes.construct import check_dtypes

N = symbol("n")
X, Y = param(tensor("f32", "n", 4)), param(tensor("f32", "n", 4))
SEQ, W = param(tensor("f32", "t", 1, 4)), param(tensor("f32", 1, 16, 4))
PAIR = op.TopK(X, [1])[0].inputs[0]
BODY = Graph((X,), (op.Relu(X),))
FLAG = np.array(True)
FOREIGN = "n is a symbol of sympy's own, not the dimension n"

SLIPS: dict[str, tuple[Callable[[], Any], type[IrkitError], str, str]] = {
    # ---- attributes
    "a number beyond float32": (lambda: op.Swish(X, alpha=6e38), TypeRuleError, "float32, and is 6e+38", "op.Swish"),
    "an int beyond any float": (lambda: op.Swish(X, alpha=10**400), TypeRuleError, "alpha must be of kind FLOAT", ""),
    "one of several beyond float32": (
        lambda: op.LSTM(SEQ, W, W, activation_alpha=[1.0, -6e38]), TypeRuleError, "activation_alpha must be", "LSTM",
    ),
    "a number of a foreign operator beyond float32": (
        lambda: irkit.custom("their::Op", X, type=X.type, a=6e38), TypeRuleError, "an attribute is 6e+38", "operand",
    ),
    "another operator of ONNX Runtime": (
        lambda: op.com_microsoft.QuikGelu(X), TypeRuleError, "no operator 'com.microsoft::QuikGelu'", "QuickGelu?",
    ),
    "a pattern of another operator of ONNX Runtime": (
        lambda: irkit.p.op("com.microsoft::QuikGelu"), TypeRuleError, "p.op: the installed ONNX Runtime", "QuickGelu?",
    ),
    "a number of numpy": (lambda: op.Mul(X, np.float64(2)), TypeRuleError, "is f64, where f32 is needed", "2.0 say"),
    "a pattern's element type": (lambda: irkit.hole("x", dtype="fp16"), TypeRuleError, "'fp16' is not", "bf16"),
    # ---- sizes
    "half a size": (
        lambda: tensor("f32", "n/2"), DimensionError, "is 0.5 for n = 1, which is not an integer", '"n // 2"',
    ),
    "half a symbol": (lambda: tensor("f32", N / 2), DimensionError, "the size n/2 is 0.5 for n = 1, which", "2*h"),
    "one through a size": (lambda: tensor("f32", "6/n"), DimensionError, "n = 4, which is not an integer", '"6 // n"'),
    "a root": (lambda: tensor("f32", "sqrt(n)"), DimensionError, "the size sqrt(n) is 1.414 for n = 2", "floor("),
    "a size in a float": (lambda: tensor("f32", 2.0), DimensionError, "2.0 is not a dimension", "write 2"),
    "a float of sympy": (lambda: tensor("f32", sympy.Float(2.0)), DimensionError, "not an integer", "write 2"),
    "a plain symbol of sympy": (lambda: tensor("f32", sympy.Symbol("n")), DimensionError, FOREIGN, 'irkit.symbol("n")'),
    "a positive symbol": (
        lambda: tensor("f32", sympy.Symbol("n", integer=True, positive=True)), DimensionError, FOREIGN, 'text "n"',
    ),
    "a foreign symbol in a sum": (
        lambda: tensor("f32", sympy.Symbol("n") + 1), DimensionError, FOREIGN, "irkit.symbol",
    ),
    "a foreign symbol in a type": (
        lambda: param(irkit.Tensor(DType.FLOAT, (sympy.Symbol("n"),))), DimensionError, FOREIGN, "irkit.symbol",
    ),
    "a foreign symbol in a vector": (
        lambda: irkit.shape_vector((sympy.Symbol("n"),)), DimensionError, FOREIGN, "irkit.symbol",
    ),
    "a foreign symbol as a scalar": (
        lambda: irkit.dim_scalar(sympy.Symbol("n")), DimensionError, FOREIGN, "irkit.symbol",
    ),
    "a floor of sympy's": (
        lambda: tensor("f32", sympy.floor(N / 2)), DimensionError, "floor is not a function of dimensions", "floordiv",
    ),
    "a maximum of sympy's": (
        lambda: tensor("f32", sympy.Max(N, 3)), DimensionError, "Max is not a function of dimensions", "maximum",
    ),
    "no end": (lambda: tensor("f32", sympy.oo), DimensionError, "oo is not a dimension", ""),
    "a question": (lambda: tensor("f32", N > 3), DimensionError, "n > 3 is not a dimension", ""),
    "a size below 0 in a text": (lambda: tensor("f32", "-3"), DimensionError, "a size cannot be -3", 'name it: "n"'),
    "a size below 0 of numpy": (lambda: tensor("f32", np.int64(-1)), DimensionError, "a size cannot be -1", ""),
    "a size that no file holds": (lambda: tensor("f32", 2**63), DimensionError, f"a size cannot be {2**63}", ""),
    "a size that is never above 0": (lambda: tensor("f32", "-n"), DimensionError, "the size -n is never above 0", ""),
    "a part of nothing": (lambda: tensor("f32", "n // 0"), DimensionError, "n // 0 has no value", ""),
    "sizes in a list": (lambda: tensor("f32", [2, 3]), DimensionError, "[2, 3] is not a dimension", "*shape"),
    "no size": (
        lambda: tensor("f32", None), DimensionError, "None is not a dimension", 'name a size that is not known: "n"',
    ),
    "a flag": (lambda: tensor("f32", True), DimensionError, "True is not a dimension", "give an int"),
    "an odd name": (
        lambda: tensor("f32", "a b"), DimensionError, "'a b' is not a dimension expression", "irkit.symbol('a b')",
    ),
    "a name in a sum": (
        lambda: dims.add("n", 1), DimensionError, "'n' is not a dimension", 'irkit.symbol("n")',  # type: ignore[arg-type]
    ),
    "names compared": (lambda: dims.same("n", N), DimensionError, "'n' is not a dimension", ""),  # type: ignore[arg-type]
    "the largest of nothing": (dims.maximum, DimensionError, "needs at least one dimension", ""),
    "a number for a name": (
        lambda: symbol(3), DimensionError, "a dimension symbol needs a name, and 3 is not one", "",  # type: ignore[arg-type]
    ),
    "an empty range": (lambda: Range(5, 2), DimensionError, "there is no size from 5 up to 2", "Range(1, 64)"),
    "a range of halves": (
        lambda: Range(0.5, 2), DimensionError, "there is no size from 0.5 up to 2", "",  # type: ignore[arg-type]
    ),
    "a shape in one text": (
        lambda: irkit.shape_vector("batch"), TypeRuleError,
        "'batch' is not a list of dimensions", "shape_vector(('batch',))",
    ),
    "half a size in a vector": (lambda: irkit.shape_vector(("n/2",)), DimensionError, "is 0.5 for n = 1", '"n // 2"'),
    "a binder that is none": (
        lambda: irkit.shape_vector((N,), 3), TypeRuleError, "shape_vector: 3 is not a value", "",  # type: ignore[arg-type]
    ),
    # ---- types and leaves
    "a type in a text": (
        lambda: param("f32 of 2"), TypeRuleError, "'f32 of 2' is not a type", "f32[batch, 4]",
    ),
    "an element type in a text": (
        lambda: param(irkit.Tensor("f32", (2,))), TypeRuleError,  # type: ignore[arg-type]
        "Tensor('f32', (2,)) is not a type of a tensor", "irkit.tensor",
    ),
    "a name in a raw type": (
        lambda: param(irkit.Tensor(DType.FLOAT, ("n",))), TypeRuleError,  # type: ignore[arg-type]
        "('n',)) is not a type of a tensor", "irkit.tensor",
    ),
    "a list in a raw type": (
        lambda: param(irkit.Tensor(DType.FLOAT, [2])), TypeRuleError,  # type: ignore[arg-type]
        "[2]) is not a type of a tensor", "irkit.tensor",
    ),
    "a size below 0 in a raw type": (
        lambda: param(irkit.Tensor(DType.FLOAT, (-1,))), DimensionError, "a size cannot be -1", "",
    ),
    "a sequence of text": (
        lambda: param(irkit.Sequence("f32")), TypeRuleError,  # type: ignore[arg-type]
        "'f32' is not a type", "irkit.tensor",
    ),
    "several types": (lambda: param(irkit.Tuple((X.type,))), TypeRuleError, "is not a type", "several results"),
    "a constant of no blob": (
        lambda: irkit.constant(3), TypeRuleError, "3 is not a blob", "irkit.const",  # type: ignore[arg-type]
    ),
    "a result of one": (lambda: irkit.item(X, 0), GraphError, "has no result number 0", "it has 1"),
    "a result by name": (
        lambda: irkit.item(PAIR, "0"), GraphError, "has no result number '0'", "it has 2",  # type: ignore[arg-type]
    ),
    "a result of a number": (lambda: irkit.item(3, 0), GraphError, "3 is not a value", ""),  # type: ignore[arg-type]
    # ---- operators
    "a fraction for an int": (
        lambda: op.Concat(X, Y, axis=1.7), TypeRuleError, "Concat: attribute axis must be of kind INT, and is 1.7", "",  # type: ignore[arg-type]
    ),
    "text for an int": (lambda: op.Concat(X, Y, axis="1"), TypeRuleError, "attribute axis must be of kind INT", ""),  # type: ignore[arg-type]
    "letters for ints": (lambda: op.Transpose(X, perm="10"), TypeRuleError, "attribute perm must be of kind INTS", ""),  # type: ignore[arg-type]
    "a number for text": (
        lambda: op.DepthToSpace(param(tensor("f32", 1, 4, 2, 2)), blocksize=2, mode=3), TypeRuleError,  # type: ignore[arg-type]
        "attribute mode must be of kind STRING, and is 3", "",
    ),
    "more results than there are": (
        lambda: op.Relu(X, outputs=2), TypeRuleError, "Relu has 1 result, and 2 are asked for", "",  # type: ignore[call-arg]
    ),
    "more results than one may ask for": (
        lambda: op.TopK(X, [1], outputs=3), TypeRuleError, "TopK has 1 result to 2, and 3 are asked for", "",
    ),
    "results in a text": (
        lambda: op.Split(X, outputs="2", axis=1), TypeRuleError,  # type: ignore[arg-type]
        "Split has any number of results, and '2' are asked", "",
    ),
    "operands in a list": (
        lambda: op.Concat([X, Y], axis=0), TypeRuleError, "Concat: operand 0 is a list of values", "op.Concat(*values)",
    ),
    "one operand for the list": (
        lambda: irkit.call("Relu", X), TypeRuleError, "Relu: the operands are", "[x]",  # type: ignore[arg-type]
    ),
    "attributes in a list": (
        lambda: irkit.call("Relu", [X], [1]), TypeRuleError, "not a mapping", '{"axis": 1}',  # type: ignore[arg-type]
    ),
    "an operator that is not text": (
        lambda: irkit.call(3, [X]), TypeRuleError, "3 is not an operator's name", "",  # type: ignore[arg-type]
    ),
    "an own operator that is not text": (
        lambda: irkit.custom(3, X, type=X.type), TypeRuleError, "3 is not an operator's", "",  # type: ignore[arg-type]
    ),
    "a table for an attribute": (
        lambda: irkit.custom("a::B", X, type=X.type, k={1: 2}), TypeRuleError, "attribute k cannot hold a dict", "",
    ),
    "an own operator of no type": (
        lambda: irkit.custom("a::B", X, type=irkit.Tensor("f32", ())), TypeRuleError,  # type: ignore[arg-type]
        "is not a type of a tensor", "",
    ),
    # ---- bodies
    "a branch with a parameter": (
        lambda: op.If(FLAG, then_branch=lambda a: a, else_branch=lambda: X), TypeRuleError,
        "a body is called with 0 values (), which it does not take: missing a required argument: 'a'", "If gives none",
    ),
    "a loop without the trip": (
        lambda: op.Loop(3, None, X, body=lambda i, v: (v,)), TypeRuleError,
        "a body is called with 3 values", "Loop the",
    ),
    "a loop without its condition": (
        lambda: op.Loop(3, None, X, body=lambda i, c, v: v), TypeRuleError,
        "Loop: the body gives back 1 value, and the condition and 1 carried are needed", "",
    ),
    "axes for other operands": (
        lambda: op.Scan(X, body=lambda v: v, num_scan_inputs=1, scan_input_axes=[0, 1]), TypeRuleError,
        "Scan: scan_input_axes has 2 axes, for 1 scanned operands", "",
    ),
    "a map over nothing": (lambda: op.SequenceMap(None, body=lambda v: v), TypeRuleError, "and no sequence", ""),
    "a call of no graph": (
        lambda: irkit.call_graph(X, X), GraphError, "a Value is not an irkit graph", "",  # type: ignore[arg-type]
    ),
    "a call on numbers": (
        lambda: irkit.call_graph(BODY, 3.0), TypeRuleError,  # type: ignore[arg-type]
        "Call: 3.0 is not a value", "irkit.const",
    ),
    "one value for the parameters": (
        lambda: irkit.closed(X, (X,)), GraphError, "are a tuple of values", "(value,)",  # type: ignore[arg-type]
    ),
    # ---- graphs
    "a parameter that is not listed": (
        lambda: Graph((X,), (op.Add(X, Y),)), GraphError,
        "the graph graph reaches a <f32[n, 4] Param> that is not among its parameters", "irkit.closed",
    ),
    "a parameter put in later": (lambda: BODY.with_results((Y,)), GraphError, "that is not among its parameters", ""),
    "a parameter by substitution": (lambda: irkit.substitute(BODY, {X: Y}), GraphError, "not among its parameters", ""),
    "a parameter twice": (lambda: Graph((X, X), (X,)), GraphError, "a parameter is listed twice", ""),
    "a parameter that is none": (
        lambda: Graph((op.Relu(X),), ()), GraphError, "<f32[n, 4] Relu> is not a parameter", "irkit.param",
    ),
    "ranges in a list": (
        lambda: Graph((X,), (X,), ["n"]), GraphError,  # type: ignore[arg-type]
        "['n'] gives no ranges of symbols", "irkit.Range",
    ),
    "a pair for a range": (
        lambda: Graph((X,), (X,), {"n": (1, 4)}), GraphError,  # type: ignore[arg-type]
        "gives no ranges of symbols", "",
    ),
    "text for a signature": (
        lambda: Graph((X,), (X,), signature="s"), GraphError,  # type: ignore[arg-type]
        "'s' is not the signature of a graph", "",
    ),
    "a number for the name": (
        lambda: Graph((X,), (X,), name=3), GraphError, "3 is not the name of a graph", "",  # type: ignore[arg-type]
    ),
    "an unknown role": (lambda: Port("x", "inpt"), GraphError, "the port 'x' has the role 'inpt'", "input, output"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_what_cannot_be_made_is_refused_with_what_to_write(slip: str) -> None:
    make, kind, what, hint = SLIPS[slip]
    with pytest.raises(kind) as caught:
        make()
    assert what in caught.value.what and hint in caught.value.hint


def test_what_reads_like_a_slip_and_is_none() -> None:
    assert repr(tensor("f32", "n*(n + 1)/2", "(n + n % 2)/2", N // 1, np.int64(3), "n - 5", 2**62)) == (
        f"f32[(n + n**2)/2, (n + n % 2)/2, n, 3, n - 5, {2**62}]"
    )
    assert size_of(sympy.Symbol("n", integer=True, nonnegative=True)) is N
    assert size_of(irkit.symbol("u", signed=True)) == irkit.symbol("u", signed=True)
    assert op.Concat(X, Y, axis=np.int64(1)).type == op.Concat(X, Y, axis=True).type == tensor("f32", "n", 8)  # type: ignore[arg-type]
    graph = Graph((X,), (X,), {"n": Range(1, 4)}, Signature((Port("x"),)))
    assert graph.symbols["n"] == Range(1, 4) and not isinstance(graph.symbols, dict)
    assert check_dtypes("Relu", irkit.ops.schemas.spec("Relu"), (X,)) is None


def test_where_two_shapes_differ() -> None:
    m = symbol("m")
    assert apart((N,), (N,), {}) is None and apart((irkit.fresh(),), (N,), {}) is None
    assert apart((dims.maximum(N, 1),), (N,), {}) == {"n": 0}
    assert apart((dims.maximum(N, 1),), (N,), {"n": Range(1)}) is None
    found = apart((N, m), (m, N), {})
    assert found is not None and found["n"] != found["m"]
    assert apart((N,), (m,), {}, lambda sizes: sizes["n"] == sizes["m"]) is None
    assert apart((dims.mul(dims.floordiv(N, 8), 8),), (N,), {}, lambda sizes: sizes["n"] % 8 == 0) is None


def test_what_holds_no_number_or_any_infinity_is_none_and_taken() -> None:
    assert irkit.const(np.zeros((2, 0), np.float32)).blob.uniform is None  # type: ignore[union-attr]
    assert op.Swish(X, alpha=float("inf")).attribute("alpha") == float("inf")
    assert irkit.p.op("com.microsoft::SomethingNewer") is not None
