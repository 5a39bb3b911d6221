"""ONNX models as graphs: constants, sizes, bodies, functions, and the doors they come in by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

import irkit
from irkit import dims
from irkit.core.blobs import COPIED
from irkit.core.ir import Graph
from irkit.errors import LoadError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx import sessions
from irkit.rewriting.numbering import share
from tests.support.onnx_models import BOOL, FLOAT, INT64, branch, function, kinds, make, model_of, small
from tests.support.timing import spent

# ---------------------------------------------------------------------------------------------- constants, initializers


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"value": numpy_helper.from_array(np.array([[1.5]], np.float64))}, np.array([[1.5]], np.float64)),
        ({"value_int": 3}, np.array(3)), ({"value_ints": [1, 2]}, np.array([1, 2])),
        ({"value_ints": []}, np.zeros(0, np.int64)), ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": [0.5, 1.0]}, np.array([0.5, 1.0], np.float32)),
        ({"value_string": b"a"}, np.array("a", object)), ({"value_strings": [b"a", b""]}, np.array(["a", ""], object)),
    ],
)  # fmt: skip
def test_every_form_of_constant(attributes: dict[str, Any], wanted: np.ndarray) -> None:
    node = make("Constant", [], ["y"])
    for name, value in attributes.items():
        kind = AttributeProto.INTS if value == [] else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    blob = irkit.load(model_of([node], [], ["y"])).results[0].blob
    assert blob is not None and blob.array.dtype == wanted.dtype and blob.array.tolist() == wanted.tolist()
    assert blob.array.shape == wanted.shape


def test_sparse_constants_are_made_dense() -> None:
    values = helper.make_tensor("s", FLOAT, [2], [1.5, 2.5])
    for indices in ([1, 5], [0, 1, 1, 2]):
        shape = [2] if len(indices) == 2 else [2, 2]
        sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", INT64, shape, indices), [2, 3])
        model = model_of([make("Identity", ["s"], ["y"])], [], ["y"])
        model.graph.sparse_initializer.append(sparse)
        model.graph.node.append(make("Constant", [], ["z"], sparse_value=sparse))
        model.graph.output.append(onnx.ValueInfoProto(name="z"))
        graph = irkit.load(model)
        for blob in (graph.results[0].inputs[0].blob, graph.results[1].blob):  # type: ignore[union-attr]
            assert blob is not None and blob.array.tolist() == [[0, 1.5, 0], [0, 0, 2.5]]


def test_an_initializer_that_is_an_input_is_a_weight() -> None:
    model = model_of(
        [make("Add", ["x", "w"], ["y"])], [("x", (2,)), ("w", (2,))], ["y"], 26, {"w": np.ones(2, np.float32)}
    )
    graph = irkit.load(model)
    assert [p.name for p in graph.signature.params] == ["x"]
    assert graph.results[0].inputs[1].blob.name == "w"  # type: ignore[union-attr]


def test_typed_fields_are_read() -> None:
    for dtype in (
        FLOAT,
        TensorProto.DOUBLE,
        INT64,
        TensorProto.INT8,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        BOOL,
        TensorProto.UINT64,
        TensorProto.COMPLEX64,
        TensorProto.INT4,
        TensorProto.FLOAT8E5M2,
    ):
        made = helper.make_tensor("w", dtype, [3], [0, 1, 1])
        model = model_of([make("Identity", ["w"], ["y"])], [], ["y"])
        model.graph.initializer.append(made)
        (blob,) = (v.blob for v in irkit.load(model).order if v.op == "Constant")
        assert blob is not None and blob.array.astype(np.complex64).tolist() == [0, 1, 1]
        assert int(blob.dtype) == dtype


# ---------------------------------------------------------------------------------------------- dimensions and sizes


def test_dimensions_keep_their_names() -> None:
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", None, "2*batch + 1", 4, "odd name", "3"])
    graph = helper.make_graph([make("Relu", ["x"], ["y"])], "g", [x], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)])
    shape = irkit.load(model).params[0].shape
    b = irkit.symbol("batch")
    assert shape == (b, irkit.symbol("x_dim1"), 2 * b + 1, 4, irkit.symbol("odd name"), irkit.symbol("3"))


TEXTS = ["(a+b+c+d+e)**8**8", "*".join(f"(a{i}+b{i})" for i in range(20)), "(" * 90 + "a" + ")" * 90, "a/0", "n/2",
         "f(x)", "a b", "lambda: 0", "9" * 190, "__import__('os')", "a if b else c"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_dimension_texts_are_names_where_they_are_no_moderate_expression(text: str) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [text])
    graph = helper.make_graph([make("Relu", ["x"], ["y"])], "g", [x], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)])
    with spent() as cost:
        (size,) = irkit.load(model).params[0].shape
    assert cost.seconds < 1
    assert size == irkit.symbol(text) or text.startswith("((")


def reshaped(nodes: list[Any], **initializers: Any) -> Graph:
    """Reshape(x[batch, seq, 64], s) where nodes make `s` out of `x`."""
    every = [*nodes, make("Reshape", ["x", "s"], ["y"])]
    data = {n: np.array(v, np.int64) for n, v in initializers.items()}
    return irkit.load(model_of(every, [("x", ("batch", "seq", 64))], ["y"], 26, data))


def test_size_chains_fold_into_dimensions() -> None:
    graph = reshaped(
        [
            make("Shape", ["x"], ["a"]),
            make("Gather", ["a", "zero"], ["b"]),
            make("Shape", ["x"], ["c"], start=1, end=2),
            make("Squeeze", ["c", "axis"], ["d"]),
            make("Mul", ["b", "d"], ["e"]),
            make("Unsqueeze", ["e", "axis"], ["f"]),
            make("Slice", ["a", "two", "big"], ["g"]),
            make("Div", ["g", "eight"], ["h"]),
            make("Cast", ["h"], ["i"], to=TensorProto.INT32),
            make("Cast", ["i"], ["j"], to=INT64),
            make("Concat", ["f", "j", "eight"], ["s"], axis=0),
        ],
        zero=0,
        axis=[0],
        two=[2],
        big=[2**63 - 1],
        eight=[8],
    )
    b, s = irkit.symbol("batch"), irkit.symbol("seq")
    assert kinds(graph) == ["ShapeVector", "Reshape"]
    assert graph.results[0].shape == (b * s, 8, 8)
    assert graph.results[0].inputs[1].attribute("dims") == (b * s, 8, 8)  # type: ignore[union-attr]


def test_the_expand_pattern_of_exporters_folds() -> None:
    graph = irkit.load(
        model_of(
            [
                make("Shape", ["x"], ["a"]),
                make("ConstantOfShape", ["three"], ["ones"], value=numpy_helper.from_array(np.array([1]))),
                make("Mul", ["ones", "minus"], ["m"]),
                make("Equal", ["a", "m"], ["flags"]),
                make("Where", ["flags", "ones", "a"], ["s"]),
                make("Expand", ["w", "s"], ["y"]),
            ],
            [("x", ("batch", "seq", 64))],
            ["y"],
            26,
            {"three": np.array([3]), "minus": np.array(-1), "w": np.ones(1, np.float32)},
        )
    )
    assert kinds(graph) == ["ShapeVector", "Expand"]
    assert graph.results[0].shape == (irkit.symbol("batch"), irkit.symbol("seq"), 64)


def test_sizes_of_data_dependent_values_name_their_operand() -> None:
    nodes = [
        make("NonZero", ["x"], ["n"]),
        make("Shape", ["n"], ["a"], start=1),
        make("ConstantOfShape", ["a"], ["y"]),
    ]
    graph = irkit.load(model_of(nodes, [("x", ("batch",))], ["y"]))
    vector = graph.results[0].inputs[0]
    assert vector is not None and vector.op == "ShapeVector" and vector.inputs[0].op == "NonZero"  # type: ignore[union-attr]
    data = np.array([1, 0, 1], np.float32)
    assert irkit.compare(evaluate(graph, (data,)), sessions.run(graph, (data,))) is None


def test_integers_of_other_types_keep_them() -> None:
    """int32 arithmetic on known numbers is not turned into int64 sizes."""
    nodes = [make("Add", ["a", "b"], ["c"]), make("Unsqueeze", ["c", "axis"], ["d"]),
             make("Concat", ["d", "d"], ["y"], axis=0), make("Identity", ["f"], ["z"])]  # fmt: skip
    data = {"a": np.array(1, np.int32), "b": np.array(2, np.int32), "axis": np.array([0]), "f": np.array([True])}
    model = model_of(nodes, [], ["y", "z"], 26, data)
    assert irkit.compare(sessions.run(model, []), sessions.run(irkit.load(model), [])) is None


def test_division_that_could_round_up_is_left_alone() -> None:
    graph = reshaped(
        [
            make("Shape", ["x"], ["a"], start=1, end=2),
            make("Sub", ["a", "eight"], ["b"]),
            make("Div", ["b", "three"], ["c"]),
            make("Mul", ["c", "zero"], ["d"]),
            make("Sub", ["d", "one"], ["s"]),
        ],
        eight=[8],
        three=[3],
        zero=[0],
        one=[1],
    )
    assert "Div" in kinds(graph)


# ---------------------------------------------------------------------------------------------- bodies and functions


def test_captures_become_operands_and_names_come_back() -> None:
    inner = branch([make("Add", ["a", "w"], ["t"])], ["t"])
    nested = make("If", ["flag"], ["n"], then_branch=inner, else_branch=branch([make("Neg", ["a"], ["e"])], ["e"]))
    nodes = [
        make("Relu", ["x"], ["a"]),
        make(
            "If",
            ["flag"],
            ["y"],
            then_branch=branch([nested], ["n"]),
            else_branch=branch([make("Identity", ["x"], ["o"])], ["o"]),
        ),
    ]
    model = model_of(nodes, [("flag", (), BOOL), ("x", ("n", 2))], ["y"], 26, {"w": np.ones(2, np.float32)})
    graph = irkit.load(model)
    (value,) = [v for v in graph.order if v.op == "If"]
    assert value.attribute("captures") == 3 and [b.name for b in value.bodies] == ["branch", "branch"]
    assert all(len(b.params) == 3 for b in value.bodies)
    irkit.verify(graph)
    written = irkit.to_proto(graph)
    assert {n.op_type for n in written.graph.node} == {"Relu", "If"}
    for flag in (True, False):
        arguments = [np.array(flag), np.array([[1, -1]], np.float32)]
        assert irkit.compare(sessions.run(model, arguments), sessions.run(written, arguments)) is None
        assert irkit.compare(sessions.run(model, arguments), evaluate(graph, arguments)) is None


def test_a_branch_that_is_certain_is_taken() -> None:
    wrong = branch([make("Reshape", ["x", "bad"], ["e"])], ["e"])
    node = make("If", ["flag"], ["y"], then_branch=branch([make("Neg", ["x"], ["t"])], ["t"]), else_branch=wrong)
    data = {"flag": np.array(True), "bad": np.array([7, 7])}
    assert kinds(irkit.load(model_of([node], [("x", (2, 2))], ["y"], 26, data))) == ["Neg"]


def loop_model(nodes: list[Any], carried: list[str], outputs: list[str], results: int) -> ModelProto:
    """A Loop over `x` whose body takes i, go and `carried`, and gives `outputs`."""
    takes = [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", BOOL, [])]
    takes += [onnx.ValueInfoProto(name=c) for c in carried]
    body = helper.make_graph(nodes, "body", takes, [onnx.ValueInfoProto(name=o) for o in outputs])
    names = [f"y{i}" for i in range(results)]
    node = make("Loop", ["trips", "", *["x"] * len(carried)], names, body=body)
    return model_of([node], [("x", ("n", 3)), ("trips", (), INT64)], names, 26, {"w": np.ones(3, np.float32)})


def test_loops_that_keep_their_sizes_keep_them() -> None:
    nodes = [make("Add", ["c", "w"], ["d"]), make("Identity", ["go"], ["out"])]
    graph = irkit.load(loop_model(nodes, ["c"], ["out", "d", "d"], 2))
    assert graph.results[0].shape == (irkit.symbol("n"), 3)
    assert graph.results[1].shape[1:] == (irkit.symbol("n"), 3)


def test_loops_that_change_a_size_make_it_unknown() -> None:
    nodes = [make("Concat", ["c", "c"], ["d"], axis=0), make("Identity", ["go"], ["out"])]
    model = loop_model(nodes, ["c"], ["out", "d"], 1)
    graph = irkit.load(model)
    assert dims.is_fresh(graph.results[0].shape[0]) and graph.results[0].shape[1] == 3
    arguments = [np.ones((1, 3), np.float32), np.array(3)]
    assert irkit.compare(sessions.run(model, arguments), sessions.run(graph, arguments)) is None


def test_a_sequence_grows_in_a_loop() -> None:
    body = helper.make_graph(
        [make("SequenceInsert", ["s", "x"], ["t"]), make("Identity", ["go"], ["out"])],
        "body",
        [*map(helper.make_tensor_value_info, ("i", "go"), (INT64, BOOL), ([], [])), onnx.ValueInfoProto(name="s")],
        [onnx.ValueInfoProto(name="out"), onnx.ValueInfoProto(name="t")],
    )
    nodes = [
        make("SequenceEmpty", [], ["e"]),
        make("Loop", ["trips", "", "e"], ["l"], body=body),
        make("ConcatFromSequence", ["l"], ["y"], axis=0),
    ]
    model = model_of(nodes, [("x", ("n", 3)), ("trips", (), INT64)], ["y"])
    arguments = [np.ones((2, 3), np.float32), np.array(2)]
    assert irkit.compare(sessions.run(model, arguments), sessions.run(irkit.load(model), arguments)) is None


def test_local_functions_are_written_out() -> None:
    alpha = make("LeakyRelu", ["a"], ["b"])
    alpha.attribute.append(AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope"))
    inner = function("leak", ["a", "unused"], ["b"], [alpha], attribute_protos=[helper.make_attribute("slope", 0.5)])
    outer = function(
        "twice",
        ["a"],
        ["d"],
        [make("leak", ["a"], ["c"], domain="local"), make("leak", ["c"], ["d"], domain="local", slope=0.25)],
    )
    nodes = [
        make("twice", ["x"], ["y"], domain="local"),
        make("twice", ["y"], ["z"], domain="local"),
    ]
    model = model_of(nodes, [("x", (3,))], ["z"], functions=[inner, outer])
    model.opset_import.append(helper.make_opsetid("local", 1))
    graph = irkit.load(model)
    assert [v.attribute("alpha") for v in graph.order if v.op == "LeakyRelu"] == [0.5, 0.25, 0.5, 0.25]
    data = np.array([-1, 0, 2], np.float32)
    assert irkit.compare((data * np.where(data < 0, 1 / 64, 1).astype(np.float32),), evaluate(graph, (data,))) is None


def test_operators_of_other_domains_take_declared_types() -> None:
    node = make("Magic", ["x"], ["m", "k"], domain="acme", level=3, names=["a", "b"])
    model = model_of([node, make("Relu", ["m"], ["y"])], [("x", ("n", 2))], ["y", "k"])
    model.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(LoadError, match="nothing says what type its result 'm' has"):
        irkit.load(model)
    model.graph.value_info.append(helper.make_tensor_value_info("m", FLOAT, ["n", 5]))
    model.graph.output[1].CopyFrom(helper.make_tensor_value_info("k", INT64, []))
    graph = irkit.load(model)
    assert kinds(graph) == ["acme::Magic", "Relu"] and graph.results[0].shape == (irkit.symbol("n"), 5)
    written = irkit.to_proto(graph)
    assert {o.domain: o.version for o in written.opset_import} == {"": 26, "acme": 1}
    assert written.graph.node[0].domain == "acme" and len(written.graph.node[0].attribute) == 2
    assert irkit.load(written) == graph


# ---------------------------------------------------------------------------------------------- doors


def test_every_door_gives_the_same_graph(tmp_path: Path) -> None:
    onnx_ir = pytest.importorskip("onnx_ir")
    graph = small()
    irkit.save(graph, tmp_path / "m.onnx", external=True)
    proto = irkit.to_proto(graph)
    model = onnx_ir.load(tmp_path / "m.onnx")
    for source in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), proto, proto.SerializeToString(), model):
        assert irkit.load(source) == graph
    with pytest.raises(LoadError, match="cannot load an int"):
        irkit.load(3)


@pytest.mark.parametrize(
    ("kind", "opset", "what", "hint"),
    [
        ("Relu", 999, "the model is of opset 999, and onnx", "an older opset"),
        ("Reluu", 17, "ONNX has no operator 'Reluu' at opset 17", "did you mean Relu?"),
        ("Wxyz", 17, "ONNX has no operator 'Wxyz' at opset 17", "a domain of its own"),
    ],
)
def test_what_onnx_does_not_know_is_refused(kind: str, opset: int, what: str, hint: str) -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node(kind, ["x"], ["y"])], "g", [x], [y])
    with pytest.raises(LoadError) as caught:
        irkit.load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)]))
    assert what in caught.value.what and hint in caught.value.hint


@pytest.mark.parametrize(("name", "reader"), [("m.irkit", "irkit.load_text"), ("m.pt2", "irkit.to_onnx")])
def test_a_file_of_another_kind_is_refused_with_its_reader(name: str, reader: str, tmp_path: Path) -> None:
    irkit.save_text(small(), tmp_path / name)
    with pytest.raises(LoadError, match="there is no ONNX model") as caught:
        irkit.load(tmp_path / name)
    assert reader in caught.value.hint


def test_onnx_ir_models_share_the_weights() -> None:
    onnx_ir = pytest.importorskip("onnx_ir")
    from irkit.onnx.onnx_ir import from_onnx_ir, to_onnx_ir

    graph = small()
    (weight,) = (v.blob for v in graph.order if v.op == "Constant")
    model = to_onnx_ir(graph)
    assert isinstance(model, onnx_ir.Model)
    tensor_ = model.graph.initializers["w"].const_value
    assert np.shares_memory(tensor_.numpy(), weight.array)  # type: ignore[union-attr]
    again = from_onnx_ir(model)
    assert again == graph and model.graph.initializers["w"].const_value is tensor_
    (found,) = (v.blob for v in again.order if v.op == "Constant")
    assert bool((found.array == weight.array).all())  # type: ignore[union-attr]


def test_weights_beside_are_read_when_asked_for(tmp_path: Path) -> None:
    for value in (irkit.const(np.ones(size, np.float32)) for size in (300, COPIED)):
        irkit.save(Graph((), (value,)), tmp_path / "m.onnx", external=True)
        (weight,) = (v.blob for v in irkit.load(tmp_path / "m.onnx").order if v.op == "Constant")
        assert weight is not None and weight.watched == (weight.nbytes > COPIED)
        assert not weight.array.flags.writeable and bool((weight.array == 1).all())
    irkit.save(small(), tmp_path / "m.onnx", external=True)
    with pytest.raises(LoadError, match="came without a folder"):
        irkit.load((tmp_path / "m.onnx").read_bytes())


def test_a_saved_graph_that_loads_is_verified() -> None:
    graph = irkit.load(irkit.to_proto(small()))
    irkit.verify(graph)
    assert share(graph) == share(small())


def test_weights_stay_in_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights inside a large file stay in the file, and the graph is the one that protobuf alone would give."""
    x = irkit.param(irkit.tensor("f32", "n", 300))
    weights = {
        "a": np.full((300, 300), 0.5, np.float32),
        "half": np.ones((200, 300), np.float16),
        "b": np.ones(300, np.float32),
    }
    a, half, b = (irkit.const(w, name=n) for n, w in weights.items())
    packed = irkit.const((np.arange(200_000) % 7).astype(ml_dtypes.uint4), name="narrow")
    graph = Graph((x,), (irkit.op.Add(irkit.op.MatMul(x, a), b), half, packed))
    path = tmp_path / "m.onnx"
    irkit.save(graph, path, external=False)
    plain = irkit.load(path)
    monkeypatch.setattr("irkit.onnx.load.LARGE", 1000)
    large = irkit.load(path)
    assert not any("array" in v.blob.__dict__ for v in large.order if v.blob is not None and v.blob.watched)
    assert large == plain == irkit.load(irkit.to_proto(graph))
    found = {v.blob.name: v.blob for v in large.order if v.blob is not None}
    assert set(found) == {"a", "half", "b", "narrow"}
    assert [name for name, blob in found.items() if blob.watched] == ["a", "half", "narrow"]
    data = path.read_bytes()
    for cut in (1, 7, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(LoadError, match=r"there is no ONNX model in the file 'm\.onnx'"):
            irkit.load(path)


@pytest.mark.parametrize("large", [False, True])
def test_a_folder_of_links_into_a_store_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    """What hubs make of a model with weights beside it: a store of files, and a folder of links under the names."""
    for name in ("store", "names"):
        (tmp_path / name).mkdir()
    path = tmp_path / "names" / "m.onnx"
    irkit.save(small(), path, external=True, size_threshold=1)
    for i, name in enumerate(("m.onnx", "m.onnx.data")):
        (path.parent / name).rename(tmp_path / "store" / str(i))
        (path.parent / name).symlink_to(f"../store/{i}")
    if large:
        monkeypatch.setattr("irkit.onnx.load.LARGE", 1)
    assert irkit.load(path) == share(small())
    (tmp_path / "elsewhere").write_bytes((tmp_path / "store" / "1").read_bytes())
    (path.parent / "m.onnx.data").unlink()
    (path.parent / "m.onnx.data").symlink_to("../elsewhere")
    with pytest.raises(LoadError, match="a link out of the folder"):
        irkit.load(path)


def test_the_version_of_a_domain_of_ones_own_is_kept() -> None:
    node = helper.make_node("Op", ["x"], ["y"], domain="mine")
    x, y = (helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xy")
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 5), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=9)
    graph = irkit.load(model)
    for again in (irkit.to_proto(graph), irkit.to_proto(irkit.load(irkit.to_proto(graph)), opset=18)):
        assert {i.domain: i.version for i in again.opset_import if i.domain} == {"mine": 5}
    assert irkit.parse(graph.text()).signature == graph.signature


def test_the_description_of_a_model_comes_back() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, FLOAT, [2]) for name in "xy")
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), doc_string="what it is for")
    graph = irkit.load(model)
    assert irkit.parse(graph.text()) == graph and "what it is for" in str(graph)
    proto = irkit.to_proto(graph)
    assert proto.doc_string == "what it is for"
    assert all("what it is for" not in entry.value for entry in proto.metadata_props)
