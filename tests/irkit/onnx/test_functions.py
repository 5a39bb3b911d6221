"""Local functions that stay Calls when a model is loaded, and what files say of their nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import irkit
from irkit.onnx import sessions
from irkit.onnx.writing.inlining import has_calls
from passes import inline, optimize, prepare
from tests.support.draws import drawn
from tests.support.node_cases import Case, cases

MODEL = onnx.parser.parse_model(
    """
    <ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
    two_blocks (float[n, 4] x, float[4, 4] w) => (float[m, 4] y) {
        a = my.domain.block <slope: float = 0.5> (x, w)
        b = my.domain.block <slope: float = 0.5> (a, w)
        c = my.domain.block <slope: float = 0.25> (b, w)
        s = Constant <value_ints: ints = [2, 2, 4]> ()
        t = Constant <value_ints: ints = [-1, 4]> ()
        u = my.domain.shaped (c, t)
        y = Add(u, u)
    }
    <opset_import: ["" : 21], domain: "my.domain">
    leaky <slope> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }
    <opset_import: ["" : 21, "my.domain" : 1], domain: "my.domain">
    block <slope> (x, w) => (y) {
        p = MatMul(x, w)
        y = my.domain.leaky <slope: float = @slope> (p)
    }
    <opset_import: ["" : 21], domain: "my.domain">
    shaped (x, shape) => (y) { y = Reshape(x, shape) }
    """
)


def test_functions_stay_calls_and_equal_calls_share_a_body(tmp_path: Path) -> None:
    kept, flat = irkit.load(MODEL, inline=False), irkit.load(MODEL)
    irkit.verify(kept)
    calls = [v for v in kept.order if v.op == "Call"]
    assert [v.bodies[0].name for v in calls] == ["block", "block", "block", "shaped"]
    assert calls[0].bodies[0] is calls[1].bodies[0] and calls[2].bodies[0] is not calls[0].bodies[0]
    assert inline(kept) == flat
    irkit.save(kept, tmp_path / "m.onnx", functions=True)
    written = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(written, full_check=True)
    assert sorted({(f.domain, f.name) for f in written.functions}) == [
        ("my.domain", name) for name in ("block", "block_1", "leaky", "leaky_1", "shaped")
    ]
    again = irkit.load(tmp_path / "m.onnx", inline=False)
    assert again == kept
    feeds = [np.random.default_rng(0).normal(size=s).astype(np.float32) for s in ((6, 4), (4, 4))]
    expected = sessions.run(MODEL, feeds)
    for graph in (kept, again, optimize(kept), prepare(optimize(kept)), optimize(flat)):
        assert irkit.compare(irkit.evaluate(graph, feeds), list(expected)) is None
    assert irkit.compare(list(sessions.run(tmp_path / "m.onnx", feeds)), list(expected)) is None


def test_inline_writes_out_what_the_predicate_asks_for() -> None:
    kept = irkit.load(MODEL, inline=False)
    some = inline(kept, lambda call: call.bodies[0].name == "block")
    assert [v.bodies[0].name for v in some.order if v.op == "Call"] == ["leaky", "leaky", "leaky", "shaped"]
    assert inline(kept, lambda call: False) is kept
    assert inline(inline(kept)) == irkit.load(MODEL) and not has_calls(inline(kept))
    inner = inline(kept, lambda call: call.bodies[0].name == "leaky")
    assert all(not has_calls(v.bodies[0]) for v in inner.order if v.op == "Call")


def as_function(model: ModelProto) -> ModelProto:
    """The model whose graph is a function, called once."""
    graph = model.graph
    names = [i.name for i in graph.input], [o.name for o in graph.output]
    function = onnx.FunctionProto(name="whole", domain="case", input=names[0], output=names[1], node=graph.node)
    function.opset_import.extend(model.opset_import)
    function.value_info.extend(graph.value_info)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    del made.graph.value_info[:]
    made.graph.node.append(helper.make_node("whole", *names, domain="case", name="call"))
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("case", 1))
    made.ir_version = max(made.ir_version, 10)
    return made


WITHOUT_SHAPES = ("test_identity_sequence", "test_sequence_insert_at_back", "test_sequence_insert_at_front")
CASES = [
    case
    for case in cases()
    if not case.model.graph.initializer and case.op != "ImageDecoder" and case.name not in WITHOUT_SHAPES
]


SOME = drawn("functions", CASES, 40, key=lambda case: case.name)


@pytest.mark.parametrize("case", SOME, ids=[case.name for case in SOME])
def test_node_cases_as_functions_give_what_they_say(case: Case) -> None:
    """The same numbers with the function kept as with it written out; where its types need more, it is written out."""
    flat = irkit.load(case.model)
    kept = irkit.load(as_function(case.model), inline=False)
    irkit.verify(kept)
    if case.op not in ("RandomNormalLike", "Bernoulli", "Dropout"):
        assert irkit.compare(irkit.evaluate(kept, case.inputs), irkit.evaluate(flat, case.inputs)) is None
    again = irkit.load(irkit.to_proto(kept, functions=True), inline=False)
    assert has_calls(again) == has_calls(kept)


# ---------------------------------------------------------------------------------------------- nodes


def test_names_texts_and_metadata_of_nodes_and_functions_are_kept_on_a_round_trip(tmp_path: Path) -> None:
    model = ModelProto()
    model.CopyFrom(MODEL)
    model.doc_string, model.functions[1].doc_string = "a model", "a block"
    model.functions[1].metadata_props.add(key="team", value="vision")
    for i, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"node/{i}", f"what node {i} does"
        node.metadata_props.add(key="author", value=f"somebody {i}")
    model.functions[1].node[0].name = "inner/product"
    graph = irkit.load(model, inline=False, notes=True)
    irkit.save(graph, tmp_path / "m.onnx", functions=True)
    written = onnx.load(tmp_path / "m.onnx")
    before = {n.name: n for n in model.graph.node if n.op_type != "Constant"}
    assert {n.name for n in written.graph.node} == before.keys()
    for node in written.graph.node:
        old = before[node.name]
        assert node.doc_string == old.doc_string and node.output == old.output
        assert {p.key: p.value for p in node.metadata_props}["author"] == old.metadata_props[0].value
    block = next(f for f in written.functions if f.name == "block")
    assert block.doc_string == "a block" and [(p.key, p.value) for p in block.metadata_props] == [("team", "vision")]
    assert block.node[0].name == "inner/product" and written.doc_string == "a model"
    again = irkit.load(tmp_path / "m.onnx", inline=False, notes=True)
    assert [v.origin for v in again.order if v.op == "Add"] == [v.origin for v in graph.order if v.op == "Add"]


def test_a_rewritten_node_keeps_what_was_said_of_the_one_it_was() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[n] y) {'
        " z = Constant <value_float: float = 0.0> () a = Relu(x) b = Relu(a) y = Neg(b) }"
    )
    model.graph.node[2].name, model.graph.node[3].name = "the/relu", "the/neg"
    better = optimize(irkit.load(model, notes=True))
    assert [(n.op_type, n.name) for n in irkit.to_proto(better).graph.node][-1] == ("Neg", "the/neg")
    plain = irkit.to_proto(irkit.load(model)).graph.node
    assert [n.name for n in plain] == [n.output[0] for n in plain]


# ---------------------------------------------------------------------------------------------- weights bound later


def linear(*, named: bool) -> irkit.Graph:
    x, w = irkit.param(irkit.tensor("f32", "n", 3)), irkit.param(irkit.tensor("f32", 3, 300))
    weight = irkit.const(np.zeros((3, 300), np.float32), name="layer.weight") if named else w
    signature = irkit.Signature((irkit.Port("x"), *([] if named else [irkit.Port("layer.weight")])))
    return irkit.Graph((x,) if named else (x, w), (irkit.op.MatMul(x, weight),), signature=signature)


@pytest.mark.parametrize("named", [True, False])
def test_weights_are_bound_to_parameters_and_to_named_contents(named: bool, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    weight, x = rng.normal(size=(3, 300)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    save_file({"layer.weight": weight, "other": np.arange(3)}, tmp_path / "w.safetensors")
    (tmp_path / "w.safetensors.index.json").write_text('{"weight_map": {"layer.weight": "w.safetensors"}}')
    graph = linear(named=named)
    for bound in (
        irkit.bind(graph, {"layer.weight": weight}),
        irkit.bind(graph, tmp_path / "w.safetensors", strict=False),
        irkit.bind(graph, tmp_path / "w.safetensors.index.json"),
    ):
        irkit.verify(bound)
        assert len(bound.params) == len(bound.signature.params) == 1
        assert irkit.compare(irkit.evaluate(bound, [x]), [x @ weight]) is None
        irkit.save(bound, tmp_path / "m.onnx", external=True)
        assert irkit.compare(list(sessions.run(tmp_path / "m.onnx", [x])), [x @ weight]) is None
    with pytest.raises(irkit.GraphError, match="no parameter and no weight called 'other'"):
        irkit.bind(graph, tmp_path / "w.safetensors")
    with pytest.raises(irkit.GraphError, match=r"layer\.weight is f64"):
        irkit.bind(graph, {"layer.weight": weight.astype(np.float64)})
    assert irkit.bind(graph, {"nothing": weight}, strict=False) is graph


def test_every_element_type_of_safetensors_is_read_as_it_is(tmp_path: Path) -> None:
    import ml_dtypes
    from safetensors.numpy import save_file

    from irkit.onnx.bind import DTYPES, stored_weights

    given = {
        str(np.dtype(kind)): np.arange(-3, 3).astype(kind).reshape(2, 3)
        for kind in ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16)
    } | {"empty": np.zeros((0, 4), np.float32), "scalar": np.array(2, np.float32)}
    save_file(given, tmp_path / "all.safetensors")
    found = stored_weights(tmp_path / "all.safetensors")
    assert found.keys() == given.keys() and len(DTYPES) == 16
    for name, array in given.items():
        assert found[name].array.dtype == array.dtype and found[name].array.tobytes() == array.tobytes(), name


@pytest.mark.parametrize(
    "content",
    [b"", b"\x08", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x05\0\0\0\0\0\0\0{bad}",
     (60).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}     ' + b"\0" * 8,
     (60).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}     ' + b"\0" * 8],
)  # fmt: skip
def test_a_file_that_is_not_of_safetensors_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(irkit.LoadError, match=r"w\.safetensors"):
        irkit.bind(linear(named=True), tmp_path / "w.safetensors")


def test_transposes_and_joined_contents_follow_and_computed_ones_are_refused() -> None:
    graph = linear(named=True)
    (weight,) = [v for v in graph.order if v.op == "Constant"]
    blob = weight.blob
    turned = irkit.Blob(blob.dtype, (300, 3), lambda: blob.read().T, turned=blob)  # type: ignore[union-attr]
    joined = irkit.Blob(blob.dtype, (6, 300), lambda: np.concatenate([blob.read()] * 2), parts=(blob, blob))  # type: ignore
    computed = irkit.Blob(blob.dtype, (3, 300), lambda: -blob.read(), of=(blob,))  # type: ignore[union-attr]
    new = np.random.default_rng(0).normal(size=(3, 300)).astype(np.float32)
    both = irkit.Graph((), (irkit.constant(turned), irkit.constant(joined)))
    found = irkit.evaluate(irkit.bind(both, {"layer.weight": new}), [])
    assert irkit.compare(found, [new.T, np.concatenate([new, new])]) is None
    with pytest.raises(irkit.GraphError, match="was computed from a weight"):
        irkit.bind(irkit.Graph((), (weight, irkit.constant(computed))), {"layer.weight": new})
