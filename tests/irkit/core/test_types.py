"""Element types, the four kinds of type, blobs, attributes."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import onnx
import pytest

import irkit
from irkit import (
    Blob,
    DType,
    Optional,
    Sequence,
    Tensor,
    Tuple,
    TypeRuleError,
    blob,
    const,
    fresh,
    hole,
    op,
    param,
    parse,
    symbol,
    tensor,
)
from irkit.core.attributes import freeze, key, single
from irkit.core.types import dims_of, map_dims, same_types


@pytest.mark.parametrize("kind", list(DType), ids=lambda d: d.short)
def test_an_element_type_is_that_of_onnx(kind: DType) -> None:
    assert onnx.TensorProto.DataType.Name(int(kind)) == kind.name
    assert DType.of(kind) is DType.of(int(kind)) is DType.of(kind.short) is DType.of(kind.numpy) is kind
    if kind is not DType.STRING:
        assert np.dtype(onnx.helper.tensor_dtype_to_np_dtype(int(kind))) == kind.numpy
        assert kind.numpy.itemsize * 8 == max(kind.bits, 8)
    assert sum((kind.is_float, kind.is_integer, kind.is_complex, kind in (DType.BOOL, DType.STRING))) == 1
    assert not kind.is_unsigned or kind.is_integer


def test_every_element_type_of_onnx_is_there() -> None:
    assert {d.name for d in DType} == set(onnx.TensorProto.DataType.keys()) - {"UNDEFINED"}
    with pytest.raises((KeyError, ValueError)):
        DType.of(0)
    with pytest.raises(KeyError):
        DType.of(np.dtype([("a", np.int8)]))
    assert DType.of("<U3") is DType.STRING


@pytest.mark.parametrize("kind", [d for d in DType if d is not DType.STRING], ids=lambda d: d.short)
def test_an_element_type_has_one_vocabulary_at_every_door(kind: DType) -> None:
    names = (kind, int(kind), kind.short, kind.short.upper(), kind.name, kind.numpy, kind.numpy.name, kind.numpy.type)
    x = param(tensor("f32", "n"))
    for name in names:
        assert DType.of(name) is tensor(name).dtype is const([], name).dtype is kind
        if not kind.is_complex and not kind.short.startswith("f6"):  # to which ONNX casts nothing
            assert op.Cast(x, to=name).dtype is kind
        assert hole("x", dtype=name).type == hole("x", dtype=kind).type
    for name in (kind.short, kind.numpy.name):
        assert parse(f"graph g {{\n  input %x: {name}[2]\n  return %x\n}}").params[0].type == tensor(kind, 2)


def test_names_of_torch_are_element_types_and_those_with_two_meanings_none() -> None:
    assert DType.of("torch.float") is DType.of("torch.float32") is DType.FLOAT
    assert DType.of("torch.int") is DType.INT32 and DType.of("torch.bfloat16") is DType.BFLOAT16
    assert [DType.of(n).short for n in ("half", "double", "F8_E4M3", "<f4")] == ["f16", "f64", "f8e4m3fn", "f32"]
    with pytest.raises(TypeRuleError, match=r"'float'\n  try: to torch that is f32, to numpy f64"):
        tensor("float", 2)
    for name in ("i5", "f8", "f4", "torch.layout", ""):  # to numpy f8 has eight bytes, to others eight bits
        with pytest.raises(TypeRuleError, match="there is no element type"):
            tensor(name)


def test_types_print_as_in_text() -> None:
    batch = symbol("batch")
    assert repr(tensor("f32", "batch", 64)) == "f32[batch, 64]"
    assert repr(tensor("i64")) == "i64[]"
    assert (
        repr(Tuple((Sequence(tensor("bf16", 2 * batch)), Optional(tensor("str")))))
        == "(seq(bf16[2*batch]), opt(str[]))"
    )
    assert tensor("f32", "2*batch + 1").shape == (2 * batch + 1,)
    assert tensor("f32", np.int64(3)).shape == (3,) and type(tensor("f32", np.int64(3)).shape[0]) is int


def test_same_types_has_three_answers() -> None:
    f, unknown = tensor("f32", "n", 2), fresh()
    assert same_types(f, tensor("f32", "n", 2)) is True
    assert same_types(f, tensor("f64", "n", 2)) is False
    assert same_types(f, tensor("f32", "n")) is False
    assert same_types(f, tensor("f32", "n", 3)) is False
    assert same_types(f, tensor("f32", "m", 2)) is None
    assert same_types(f, tensor("f32", "m", 3)) is False  # the second dimension decides
    assert same_types(Sequence(f), Optional(f)) is False
    assert same_types(Sequence(f), Sequence(tensor("f32", "m", 2))) is None
    assert same_types(Tuple((f,)), Tuple((f, f))) is False
    assert same_types(Tuple((f, f)), Tuple((f, f))) is True
    assert same_types(Tensor(DType.FLOAT, (unknown,)), Tensor(DType.FLOAT, (unknown,))) is True
    assert same_types(Tensor(DType.FLOAT, (unknown,)), Tensor(DType.FLOAT, (fresh(),))) is None


def test_map_dims_keeps_what_does_not_change() -> None:
    type_ = Tuple((Sequence(tensor("f32", "n", 2)), Optional(tensor("f32", "m"))))
    assert map_dims(type_, lambda d: d) is type_
    assert [str(d) for d in dims_of(map_dims(type_, lambda d: d * 2))] == ["2*n", "4", "2*m"]


def test_types_are_hashable_and_immutable() -> None:
    assert len({tensor("f32", "n"), tensor("f32", "n"), tensor("f32", "m")}) == 2
    for type_ in (tensor("f32"), Sequence(tensor("f32")), Optional(tensor("f32")), Tuple(())):
        with pytest.raises(AttributeError):
            type_.dtype = DType.INT8  # type: ignore[union-attr, misc]


# ---------------------------------------------------------------------------------------------- blobs


def test_a_blob_is_a_copy_and_read_only() -> None:
    array = np.arange(10_000, dtype=np.float32)
    for held in (blob(array), blob(array, copy=False)):
        assert np.shares_memory(held.array, array) == held.watched
        assert held.array is held.array
        with pytest.raises(ValueError, match="read-only"):
            held.array[0] = 1.0
    array[0] = 7.0  # the caller's own array stays writable


def test_python_numbers_become_f32_i64_and_bool() -> None:
    assert [blob(d).dtype.short for d in (1, 1.0, True, [1, 2], [1.0], [], "a", ["a", "b"], 1 + 2j)] == [
        "i64",
        "f32",
        "bool",
        "i64",
        "f32",
        "i64",
        "str",
        "str",
        "c128",
    ]
    assert blob(1, "f16").dtype is DType.FLOAT16
    assert blob(np.float64(1)).dtype is DType.DOUBLE
    assert blob(np.array([1], ">i4")).array.dtype.byteorder != ">"


def test_a_blob_is_loaded_when_asked_and_checked() -> None:
    calls = []

    def load() -> np.ndarray:
        calls.append(1)
        return np.zeros((2, 3), np.float32)

    lazy = Blob(DType.FLOAT, (2, 3), load, "w")
    assert (lazy.size, lazy.nbytes, repr(lazy)) == (6, 24, "Blob(f32[2, 3], w)")
    assert not calls
    assert lazy.array.shape == (2, 3)
    with pytest.raises(ValueError, match="loaded a float32 array of shape"):
        _ = Blob(DType.FLOAT, (3, 2), load).array
    with pytest.raises(ValueError, match="loaded"):
        _ = Blob(DType.DOUBLE, (2, 3), load).array
    assert Blob(DType.INT4, (3,), lambda: np.zeros(3, ml_dtypes.int4)).nbytes == 2


def test_small_blobs_are_one_by_content_and_large_ones_by_storage() -> None:
    assert blob([1.0, 2.0]).key == blob([1.0, 2.0]).key
    assert blob([0.0]).key != blob([-0.0]).key
    assert blob([1.0]).key != blob([[1.0]]).key
    assert blob(["ab", "c"]).key != blob(["a", "bc"]).key
    large = np.zeros(1000, np.float32)
    assert blob(large).key != blob(large).key
    tied = [Blob(DType.FLOAT, (1000,), lambda: large, name, source=large) for name in "ab"]
    assert tied[0].key == tied[1].key


def test_the_digest_of_a_blob_is_that_of_its_content() -> None:
    array = np.arange(1000, dtype=np.float32)
    assert blob(array).digest == blob(array.copy(), name="other").digest
    assert blob(array).digest != blob(array.reshape(10, 100)).digest
    assert blob(array).digest != blob(array.view(np.int32)).digest
    assert blob(np.asfortranarray(array.reshape(10, 100))).digest == blob(array.reshape(10, 100)).digest
    assert blob(np.zeros((0, 2), np.float32)).digest != blob(np.zeros((2, 0), np.float32)).digest


def test_blobs_pickle() -> None:
    held = pickle.loads(pickle.dumps(blob(np.arange(3), name="w")))
    assert (held.name, held.array.tolist(), held.dtype) == ("w", [0, 1, 2], DType.INT64)
    assert pickle.loads(pickle.dumps(blob(["a", "é"]))).array.tolist() == ["a", "é"]


# ---------------------------------------------------------------------------------------------- attributes


def test_attributes_are_sorted_frozen_and_hashable() -> None:
    given = freeze({"b": [1, [2.0]], "a": True, "c": None, "d": np.float32(0.5), "e": np.array([1]), "f": DType.FLOAT})
    assert [name for name, _ in given] == ["a", "b", "d", "e", "f"]
    values = dict(given)
    assert (values["a"], type(values["a"])) == (1, int)
    assert values["b"] == (1, (2.0,))
    assert (values["d"], type(values["d"])) == (0.5, float)
    assert isinstance(values["e"], Blob)
    assert (values["f"], type(values["f"])) == (1, int)
    hash(key(given))
    with pytest.raises(TypeRuleError):
        freeze({"a": object()})


def test_the_key_of_attributes_tells_zeros_apart_and_equal_blobs_not() -> None:
    assert key(freeze({"a": 0.0})) != key(freeze({"a": -0.0}))
    assert key(freeze({"a": [0.0]})) != key(freeze({"a": [-0.0]}))
    assert key(freeze({"a": np.zeros(2)})) == key(freeze({"a": np.zeros(2)}))
    assert freeze({}) == ()


def test_single_is_the_nearest_f32() -> None:
    for number in (0.1, 1e-5, 1.0, -0.0, 3.4e38, 1e-46):
        assert repr(single(number)) == repr(float(np.float32(number)))
    assert single(np.float32(0.5)) == 0.5
    assert irkit.op.LeakyRelu(irkit.param(tensor("f32")), alpha=0.01).attributes == ()  # the default, as ONNX has it


@pytest.mark.parametrize(("kind", "widths"), [(float, '"f32" or "f64"'), (int, '"i32" or'), (complex, '"c64" or')])
def test_types_of_python_without_a_width_are_refused_with_what_to_write(kind: type, widths: str) -> None:
    """`dtype="float"` is any width to a hole, `dtype=float` once was f64."""
    with pytest.raises(TypeRuleError, match=f"says no width: write {widths}"):
        tensor(kind, 3)
    with pytest.raises(TypeRuleError, match=f"says no width: write {widths}.*, or one of the words float"):
        irkit.hole("x", dtype=kind)
    with pytest.raises(TypeRuleError):
        irkit.op.Cast(irkit.param("f32[3]"), to=kind)
    assert tensor(bool, 3).dtype is DType.BOOL and tensor(str, 3).dtype is DType.STRING
