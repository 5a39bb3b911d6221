"""Operators of one's own: typed, evaluated, printed, saved, checked and fuzzed as ONNX's are, and looked up nowhere."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit import Graph, TypeRuleError, const, hole, op, p, param, tensor
from irkit.checking.samples.sampler import FLOATS
from irkit.core.operator_names import OperatorName
from irkit.dialects.fingerprints import fingerprint
from irkit.evaluation.kernels.common import Array
from irkit.onnx.sessions import session
from irkit.pattern import attr
from irkit.testing import choices, random_feeds, random_graph
from passes import legalize, optimize, prepare
from passes.legal.definitions import own_written_out
from passes.targets import target_of

X = param(tensor("f32", "n", 4))
ARRAY = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)


def silu_kernel(x: Array, *, alpha: float) -> Array:
    with np.errstate(over="ignore"):
        return (x / (1 + np.exp(-alpha * x.astype(np.float64)))).astype(x.dtype)


@irkit.operator("mylib::Silu", dtypes={"x": "float"}, kernel=silu_kernel)
def silu(x: Any, *, alpha: float = 1.0) -> Any:
    """x * sigmoid(alpha * x)"""
    return op.Mul(x, op.Sigmoid(op.Mul(x, const(alpha, x.dtype))))


@irkit.operator("mylib::Gated", dtypes={"x": "float", "gate": "x"})
def gated(x: Any, gate: Any, bias: Any = None, *, alpha: float = 1.0) -> Any:
    """x * silu(gate) + bias"""
    found = op.Mul(x, silu(gate, alpha=alpha))
    return found if bias is None else op.Add(found, op.CastLike(bias, x))


@irkit.operator(
    "mylib::Moments", dtypes={"x": "float"}, results=("mean", "variance"), sample=lambda s: s.tensor(FLOATS, 1, 3)
)
def moments(x: Any, *, axis: int = 0) -> Any:
    """The mean of x along an axis, and the mean of the squares of what is left"""
    mean = op.ReduceMean(x, [axis])
    return mean, op.ReduceMean(op.Mul(op.Sub(x, mean), op.Sub(x, mean)), [axis])


@irkit.operator("mylib::Weighted", dtypes={"xs": "float"}, kernel=lambda *xs, weight: sum(xs[1:], xs[0]) * weight)
def weighted(*xs: Any, weight: int = 2) -> Any:
    """weight * (the sum of all)"""
    total = op.Sum(*xs)
    return op.Mul(total, const(weight, total.dtype))


def looked_up_type(table: Any, ids: Any) -> Any:
    return irkit.Tensor(table.dtype, (*ids.shape, *table.shape[1:]))


@irkit.operator(
    "mylib::Lookup",
    dtypes={"ids": "i64"},
    type_rule=looked_up_type,
    kernel=lambda table, ids: table[ids],
    sample=lambda s: (s.parameter(irkit.DType.FLOAT, (3, 2)), np.array([0, 2, 1])),
)
def lookup(table: Any, ids: Any) -> Any: ...


mylib = irkit.dialect("mylib", silu, gated, moments, weighted, lookup)


@irkit.rule(p.Mul(hole("x"), mylib.p.Silu(hole("gate"), alpha=attr("alpha"))), exact=False)
def gate_by_silu(m: Any) -> Any:
    """x * silu(gate) -> gated(x, gate)"""
    return gated(m.x, m.gate, alpha=m.alpha)


# ---------------------------------------------------------------------------------------------- all that is drawn

AMONG = [*(name for name in mylib if name != "mylib::Lookup"), "Add", "Mul", "Transpose", "If"]


def own_keys(graph: Graph) -> Any:
    """What a file keeps of operators of ours."""
    return Counter((v.op, v.attributes, v.type) for v in irkit.share(graph).order if "::" in v.op)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_compositions_are_their_definitions(seed: int) -> None:
    """By kernel and by definition, from text and from ONNX, and on ONNX Runtime with the definitions as functions."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 5, ops=AMONG, dialects=mylib, empty=False, wide=False)
    irkit.verify(graph)
    assert irkit.parse(str(graph), blobs=graph, dialects=mylib) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph
    binding = {name: max(sizes) for name, sizes in choices(graph).items()}
    arrays = random_feeds(graph, binding, rng)
    expected = irkit.evaluate(graph, arrays)
    read = irkit.load(irkit.to_proto(graph), dialects=mylib)
    assert own_keys(read) <= own_keys(graph)  # a result of an If that nobody uses is not written
    assert irkit.compare(expected, irkit.evaluate(read, arrays)) is None
    plain = own_written_out(graph)
    assert not any("::" in v.op for v in plain.order)
    assert irkit.compare(expected, irkit.evaluate(plain, arrays), rtol=1e-5, atol=1e-5) is None
    kept = prepare(graph, "onnxruntime-cpu+mylib")
    assert irkit.compare(expected, session(kept).run(arrays), rtol=1e-4, atol=1e-4) is None


@pytest.mark.parametrize("operator", mylib.values(), ids=list(mylib))
def test_an_operator_is_checked(operator: irkit.Operator) -> None:
    report = irkit.check_operator(operator, 10)
    assert report.instances == 10 and operator.text in str(report)
    assert (report.by_definition is None) == (operator is lookup)
    assert ("the evaluator gives what its definition says" in str(report)) == (operator is not lookup)
    assert "fired on 10 instances" not in str(report) and "proof" not in str(report)
    if report.by_definition is not None and operator is not gated:  # its bias may be of any element type
        assert {name for name, _ in report.by_definition.types} <= {"bf16", "f16", "f32", "f64"}
    assert report.on_runtime > 0 or operator is lookup


def test_a_wrong_kernel_and_a_rule_between_the_dialect_and_onnx_are_checked() -> None:
    assert irkit.check_rule(gate_by_silu, 10).fired == 10
    wrong = irkit.operator("mylib::Wrong", dtypes={"x": "float"}, kernel=lambda x: -x)(lambda x: op.Abs(x))
    with pytest.raises(irkit.RewriteError, match="define mylib::Wrong differs"):
        irkit.check_operator(wrong, 10, onnxruntime=False)


def test_the_page_says_it_in_sixty_lines() -> None:
    page = (Path(__file__).parents[3] / "docs/guide/write_a_dialect.md").read_text()
    first = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0].strip().splitlines()
    assert len(first) <= 60 and sum("@irkit.operator" in line for line in first) == 3


# ---------------------------------------------------------------------------------------------- built and written


def test_operators_build_values_that_are_typed_and_evaluated() -> None:
    mean, variance = moments(X, axis=-1)
    assert mean.type == tensor("f32", "n", 1) and variance.op == "Item"
    assert gated(X, X).type == X.type == gated(X, X, 1.0).type
    assert weighted(X, X, X).type == X.type
    graph = Graph((X,), (mean, gated(X, silu(X, alpha=2.0), 1.0), weighted(X, 2.0, X, weight=3)))
    found = irkit.evaluate(graph, [ARRAY])
    inner = silu_kernel(ARRAY, alpha=2.0)
    expected = (ARRAY.mean(-1, keepdims=True), ARRAY * silu_kernel(inner, alpha=1.0) + 1, 3 * (2 * ARRAY + 2))
    assert irkit.compare(found, expected, rtol=1e-5, atol=1e-6) is None
    assert Counter(v.op for v in graph.order)["mylib::Silu"] == 1  # a name is a text


def test_kernels_that_are_given_win_over_the_operators_own() -> None:
    graph = Graph((X,), (silu(X, alpha=2.0),))

    def other(node: irkit.Value, x: Array) -> Array:
        return x * np.float32(node.attribute("alpha"))

    (found,) = irkit.evaluate(graph, [ARRAY], kernels={"mylib::Silu": other})
    assert found.tolist() == (2 * ARRAY).tolist()
    plain = Graph((X,), (irkit.custom("else::Silu", X, type=X.type),))
    with pytest.raises(irkit.EvaluateError, match="no kernel for else::Silu") as error:
        irkit.evaluate(plain, [ARRAY])
    assert "irkit.operator(..., kernel=)" in error.value.hint and "'else::Silu': ..." in error.value.hint
    ruled = irkit.operator("mylib::Ruled", type_rule=lambda x: x.type)(stub)
    with pytest.raises(irkit.EvaluateError, match="no kernel for mylib::Ruled"):
        irkit.evaluate(Graph((X,), (ruled(X),)), [ARRAY])


def stub(x: Any) -> Any:
    """Nothing but its parameters."""


def test_files_hold_definitions_as_local_functions(tmp_path: Path) -> None:
    graph = Graph((X,), (silu(X), silu(silu(X, alpha=3.0)), gated(X, X, 2.0)))
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    assert [(f.name, f.overload) for f in model.functions] == [("Silu", ""), ("Silu", "1"), ("Gated", "")]
    assert [list(f.input) for f in model.functions] == [["x"], ["x"], ["x", "gate", "bias"]]
    assert irkit.compare(irkit.evaluate(graph, [ARRAY]), session(graph).run([ARRAY])) is None
    irkit.save(graph, tmp_path / "mine.onnx")
    assert irkit.load(tmp_path / "mine.onnx", dialects=[mylib]) == graph
    plain = irkit.load(tmp_path / "mine.onnx")
    assert not any("::" in v.op for v in plain.order)
    assert irkit.compare(irkit.evaluate(graph, [ARRAY]), irkit.evaluate(plain, [ARRAY])) is None
    assert irkit.evaluate(tmp_path / "mine.onnx", [ARRAY], dialects=mylib)[0].shape == (2, 4)


@pytest.mark.parametrize("opset", (13, 17, 26))
def test_definitions_are_written_at_the_opset_that_is_asked_for(opset: int) -> None:
    graph = Graph((X,), (silu(X), *moments(X, axis=1)))
    ready = prepare(graph, target_of("onnxruntime-cpu+mylib", opset))
    found = session(ready, opset=opset).run([ARRAY])
    assert irkit.compare(irkit.evaluate(graph, [ARRAY]), found) is None
    assert "mylib::Silu" in [v.op for v in ready.order]


def test_functions_and_bodies_hold_operators() -> None:
    """ONNX Runtime calls from a function the function without an overload, so none of ours is left in functions."""
    y = param(tensor("f32", "m", 4))
    body = Graph((y,), (gated(y, silu(y, alpha=2.0)),), name="Inner")
    chosen = op.If(
        op.Greater(op.ReduceSum(X), 0.0),
        then_branch=lambda: silu(X, alpha=5.0),
        else_branch=lambda: op.Add(silu(X, alpha=2.0), X),
    )
    graph = Graph((X,), (irkit.call_graph(body, X), silu(X), chosen[0]))
    expected = irkit.evaluate(graph, [ARRAY])
    for functions in (False, True):
        model = irkit.to_proto(graph, functions=functions)
        assert ("Inner" in [f.name for f in model.functions]) is functions
        assert irkit.compare(expected, session(model).run([ARRAY])) is None
        assert irkit.compare(expected, session(graph, functions=functions).run([ARRAY])) is None
    assert irkit.load(irkit.to_proto(graph), dialects=mylib).order


def test_what_a_target_lacks_is_written_by_its_definition() -> None:
    graph = Graph((X,), (gated(X, silu(X)),))
    for target in ("onnxruntime-cpu", "onnx"):
        assert not any("::" in v.op for v in legalize(graph, target_of(target)).order)
    kept = legalize(graph, target_of("onnxruntime-cpu+mylib"))
    assert kept is graph
    with pytest.raises(irkit.RewriteError, match="mylib::Silu, mylib::Gated cannot run"):
        irkit.save(graph, "never.onnx", target="onnxruntime-cpu")
    assert optimize(graph) == graph
    found = irkit.rewrite(Graph((X,), (op.Mul(X, silu(X)),)), gate_by_silu)
    assert [v.op for v in found.order] == ["Param", "mylib::Gated"]


def test_an_operator_without_a_definition_stays_in_files() -> None:
    graph = Graph((X,), (lookup(X, np.array([1, 0])),))
    model = irkit.to_proto(prepare(graph))
    assert not model.functions and [n.op_type for n in model.graph.node] == ["Lookup"]
    assert irkit.load(model, dialects=mylib) == graph


def test_gradients_go_through_definitions() -> None:
    loss = Graph((X,), (op.ReduceSum(gated(X, X), keepdims=0),))
    slopes = irkit.evaluate(irkit.grad(loss, [X]), [ARRAY])[-1]
    step = 1e-3
    up, down = (irkit.evaluate(loss, [ARRAY + sign * step])[0] for sign in (1, -1))
    assert abs(float((up - down) / (2 * step)) - float(slopes.sum())) < 1e-2


# ---------------------------------------------------------------------------------------------- definitions by others

SCRIPT = onnx.parser.parse_function(
    """<opset_import: ["" : 18], domain: "theirs">
    Clamp <limit: float = 1.0> (x) => (y) {
        l = Constant <value_float: float = @limit> ()
        q = Div(x, l)
        t = Tanh(q)
        y = Mul(t, l)
    }"""
)


def test_a_function_of_onnx_defines_an_operator() -> None:
    clamp = irkit.operator("mylib::Clamp", dtypes={"x": "f32"})(SCRIPT)
    assert repr(clamp) == "mylib::Clamp(x, *, limit=1.0)"
    graph = Graph((X,), (clamp(X, limit=2.0),))
    expected = [2 * np.tanh(ARRAY / 2)]
    assert irkit.compare(irkit.evaluate(graph, [ARRAY]), expected) is None
    assert irkit.compare(session(graph).run([ARRAY]), expected) is None
    assert irkit.load(irkit.to_proto(graph), dialects={clamp.text: clamp}) == graph
    assert irkit.check_operator(clamp, 5).on_runtime


def test_a_function_of_onnxscript_defines_an_operator() -> None:
    onnxscript = pytest.importorskip("onnxscript")
    from tests.irkit.dialects.scripted import scaled

    assert onnxscript is not None
    operator = irkit.operator("mylib::Scaled", dtypes={"x": "f32"}, kernel=lambda x, *, by: x * np.float32(by))(scaled)
    graph = Graph((X,), (operator(X, by=3.0),))
    assert irkit.compare(session(graph).run([ARRAY]), [3 * ARRAY]) is None
    assert irkit.check_operator(operator, 5).by_definition


def test_the_operators_of_onnx_runtime_are_a_dialect() -> None:
    microsoft = irkit.runtime_dialect()
    assert len(microsoft) > 25 and all(type(each) is irkit.Operator and each.definition for each in microsoft.values())
    assert microsoft.op.QuickGelu(X, alpha=2.0).type == X.type
    mine = Graph((X,), (microsoft.op.QuickGelu(X, alpha=2.0),))
    assert mine == Graph((X,), (op.com_microsoft.QuickGelu(X, alpha=2.0),))
    both = microsoft + mylib
    assert {"com.microsoft::FastGelu", "mylib::Silu"} < set(both) and both.op.Silu is silu
    assert irkit.parse(str(mine), dialects=[microsoft, mylib]) == mine
    assert pickle.loads(pickle.dumps(microsoft["com.microsoft::FastGelu"])) is microsoft["com.microsoft::FastGelu"]
    for name in ("FastGelu", "QuickGelu", "Gelu"):
        assert irkit.check_operator(microsoft[f"com.microsoft::{name}"], 5, onnxruntime=False).by_definition


# ---------------------------------------------------------------------------------------------- side by side


def another(code: Any) -> irkit.Operator:
    """A second operator of the name of silu."""
    return irkit.operator("mylib::Silu", dtypes={"x": "float"}, version=2)(code)


def test_two_versions_do_not_disturb_one_another() -> None:
    new = another(lambda x, *, alpha=1.0: op.Swish(op.Neg(x), alpha=alpha))
    newer = mylib.replacing(new)
    assert newer.op.Silu is new and mylib.op.Silu is silu
    one, other = Graph((X,), (silu(X),)), Graph((X,), (new(X),))
    assert one != other and one.digest != other.digest
    assert str(one) == str(other) and irkit.parse(str(one), dialects=newer) == other
    both = Graph((X,), (silu(X), new(X), silu(X), irkit.custom("mylib::Silu", X, type=X.type)))
    shared = irkit.share(both)
    assert len([v for v in shared.order if v.op == "mylib::Silu"]) == 3  # the plain one is a third
    found = irkit.evaluate(Graph((X,), (silu(X), new(X))), [ARRAY])
    assert irkit.compare(found, [silu_kernel(ARRAY, alpha=1.0), silu_kernel(-ARRAY, alpha=1.0)]) is None
    product = Graph((X,), (op.Mul(X, new(X)), op.Mul(X, silu(X))))
    rewritten = irkit.rewrite(product, gate_by_silu)
    assert [v.op for v in rewritten.results] == ["Mul", "mylib::Gated"]
    assert irkit.rewrite(other, gate_by_silu) is other
    with pytest.raises(irkit.SerializeError, match="two operators called mylib::Silu"):
        irkit.to_proto(Graph((X,), (silu(X), new(X))))
    assert irkit.to_proto(other).opset_import[-1].version == 2
    old_file = irkit.load(irkit.to_proto(one), dialects=newer)  # of version 1: its own function says what it is
    assert not any("::" in v.op for v in old_file.order)
    assert irkit.load(irkit.to_proto(other), dialects=newer) == other


def test_nothing_is_known_of_a_name_by_itself() -> None:
    """What was built and matched before leaves no trace in what is remembered of plain names."""
    mylib.p.Silu(hole("x"))
    irkit.verify(Graph((X,), (silu(X),)))
    with pytest.raises(TypeRuleError, match="ONNX has no operator 'mylib::Silu'"):
        irkit.call("mylib::Silu", [X])
    assert irkit.call(silu.name, [X]).op == "mylib::Silu" == silu.name
    assert type(irkit.parse(str(Graph((X,), (silu(X),)))).results[0].op) is str
    p.op("mylib::Silu")(hole("x"), hole("y"), beta=1)  # of which nothing is known
    with pytest.raises(TypeRuleError, match="there is no attribute 'beta'"):
        mylib.p.Silu(hole("x"), beta=1)
    with pytest.raises(TypeRuleError, match="takes 1 operand"):
        mylib.p.Silu(hole("x"), hole("y"))


def test_operators_of_one_code_are_one_to_a_digest() -> None:
    def code(number: float) -> Any:
        return lambda x: op.Mul(x, const(number, x.dtype))

    row = silu.row
    assert fingerprint(row, code(2.0)) == fingerprint(row, code(2.0)) != fingerprint(row, code(3.0))
    one, same, other = (irkit.operator("mylib::By", dtypes={"x": "f32"})(code(n)) for n in (2.0, 2.0, 3.0))
    assert Graph((X,), (one(X),)) == Graph((X,), (same(X),)) != Graph((X,), (other(X),))


def test_names_are_texts_that_do_not_change() -> None:
    name = silu.name
    assert type(name) is OperatorName and name == "mylib::Silu" and hash(name) == hash("mylib::Silu")
    with pytest.raises(AttributeError, match="does not change"):
        name.operator = None
    assert pickle.loads(pickle.dumps(name)) is name
    local = irkit.operator("mylib::Local", dtypes={"x": "float"})(lambda x: op.Neg(x))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(local.name)


# ---------------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("misuse", "reason", "hint"),
    [
        (lambda: silu(X, X), "takes 1 operand, and was given 2", "mylib::Silu(x, *, alpha=1.0)"),
        (lambda: silu(X, beta=1.0), "has no attribute 'beta'", "it has: alpha"),
        (lambda: silu(X, alpha=None), "attribute alpha is None, which would be its default, 1.0", "leave alpha out"),
        (lambda: silu(X, alpha="1"), "attribute alpha must be of kind FLOAT", "mylib::Silu(x, *, alpha=1.0)"),
        (lambda: silu(X, alpha=6e38), "which is float32, and is 6e+38", ""),
        (lambda: irkit.operator("mylib::S", dtypes="float")(lambda x: x), "dtypes is 'float'", '{"x": "float"}'),  # type: ignore[arg-type]
        (lambda: silu(param(tensor("i64", 2))), "operand 0 (x) cannot be i64", "cast the operand"),
        (lambda: gated(X, param(tensor("f64", 4))), "operand 1 (gate) is f64, where f32 is needed", "cast"),
        (lambda: gated(X, param(tensor("f32", 3, 5))), "mylib::Gated: Mul: 4 and 5 do not broadcast", "Gated(x, gate"),
        (lambda: irkit.operator("Silu"), "the operator 'Silu' has no domain", "mylib::Silu"),
        (lambda: irkit.operator("com.microsoft::Silu"), "which is others'", "mylib::Silu"),
        (lambda: irkit.operator("mylib::Silu")(stub), "nothing says the types", "type_rule="),
        (lambda: irkit.operator("mylib::S")(lambda x, axis=1: x), "axis has the default 1", "(..., *, axis"),
        (lambda: irkit.operator("mylib::S")(lambda x, *, axis: x), "of what kind the attribute axis is", "annotate it"),
        (lambda: irkit.operator("mylib::S")(lambda x, **given: x), "**given names no attribute", "list them"),
        (lambda: irkit.operator("mylib::S", dtypes={"y": "f32"})(lambda x: x), "has no operand 'y'", "operands are x"),
        (lambda: irkit.operator("mylib::S", results="y")(lambda x: x), "results is 'y'", "tuple of names"),
        (lambda: irkit.operator("mylib::S", version=0)(lambda x: x), "version is 0", "counted from 1"),
        (lambda: irkit.operator("mylib::S")(3), "3 defines nothing", "decorate a function"),
        (lambda: irkit.operator("mylib::S", kernel=lambda x: x)(lambda x, *, k=1: x), "kernel does not", "(x, k=)"),
        (lambda: irkit.operator("mylib::S", type_rule=lambda: X.type)(lambda x: x), "type rule does not take", "(x)"),
        (lambda: irkit.operator("mylib::S", type_rule=lambda x: 3)(stub)(X), "its type rule gives 3", "irkit.tensor"),
        (lambda: irkit.operator("mylib::S")(lambda x: None if x.rank else x)(X), "gives nothing", ""),
        (lambda: irkit.operator("mylib::S")(lambda x: 1 + len(x.shape))(X), "which is no value", "S(x)"),
        (lambda: irkit.operator("mylib::S")(lambda x: (x, x))(X), "gives 2 results, and it has 1", "results="),
        (lambda: irkit.operator("mylib::S", results=("a", "b"))(lambda x: op.Neg(x))(X), "only the first 1", ""),
        (lambda: irkit.operator("mylib::S", type_rule=lambda x: x.type)(lambda x: op.Concat(x, x, axis=1))(X),
         "its type rule says f32[n, 4], and its definition makes f32[n, 8]", "mend one of them"),
        (lambda: irkit.dialect("mylib", silu, another(lambda x: x)), "two operators of the dialect mylib", "replacing"),
        (lambda: irkit.dialect("theirs", silu), "does not belong to the dialect theirs", "theirs::Silu"),
        (lambda: irkit.dialect("mylib", "Silu"), "'Silu' is not an operator", "@irkit.operator"),  # type: ignore[arg-type]
        (lambda: irkit.parse("", dialects=[mylib, mylib.replacing(another(lambda x: x))]), "two dialects have", "one"),
        (lambda: irkit.parse("", dialects=[3]), "3 is not a dialect", "irkit.dialect"),  # type: ignore[list-item]
    ],
)  # fmt: skip
def test_misuse_is_refused_with_a_hint(misuse: Any, reason: str, hint: str) -> None:
    with pytest.raises(irkit.IrkitError) as error:
        misuse()
    assert reason in error.value.what and hint in error.value.hint


def test_an_operator_that_a_dialect_lacks_is_told_with_those_it_has() -> None:
    with pytest.raises(KeyError, match="the dialect mylib has no operator 'Silu'; it has mylib::Silu"):
        mylib["Silu"]


def test_a_definition_of_itself_has_no_end() -> None:
    table: dict[str, irkit.Operator] = {}
    table["loop"] = irkit.operator("mylib::Loop")(lambda x: table["loop"](x))
    with pytest.raises(TypeRuleError, match="made of itself"):
        table["loop"](X)


def test_a_dialect_says_what_it_has() -> None:
    assert "Silu" in dir(mylib.op) and repr(mylib).startswith("<Dialect mylib: mylib::Silu(x, *, alpha=1.0)")
    with pytest.raises(AttributeError, match="has no operator 'Sliu'"):
        _ = mylib.op.Sliu
    assert "x * sigmoid(alpha * x)" in (silu.__doc__ or "")
    model = irkit.to_proto(Graph((X,), (silu(X),)))
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("beta", 1.0))
    with pytest.raises(irkit.LoadError, match="has no attribute 'beta'"):
        irkit.load(model, dialects=mylib)
