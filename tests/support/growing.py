"""Families of models that grow: each must cost as much as it has nodes, at every step from the file to the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from tests.support.onnx_models import FLOAT, INT64, branch, function, make, model_of

BOOL = TensorProto.BOOL
Nodes = list[Any]


def chain(op: str, count: int, operands: Callable[[str, int], list[str]], **attributes: Any) -> Nodes:
    """`count` nodes, each over what `operands` makes of the one before: x, v1, v2, ..."""
    names = ["x", *(f"v{i}" for i in range(1, count + 1))]
    return [make(op, operands(names[i], i), [names[i + 1]], **attributes) for i in range(count)]


def twice(
    op: str, shape: tuple[Any, ...] = (2,), *, dtype: int = FLOAT, **attributes: Any
) -> Callable[[int], ModelProto]:
    """An operator over what it gave before, and that again."""

    def made(count: int) -> ModelProto:
        nodes = chain(op, count, lambda v, i: [v, v], **attributes)
        return model_of(nodes, [("x", shape, dtype)], [f"v{count}"])

    return made


def over(
    op: str, shape: tuple[Any, ...], *more: Any, dtype: int = FLOAT, **attributes: Any
) -> Callable[[int], ModelProto]:
    """An operator over what it gave before and over constants, which are others at odd places than at even ones where
    two lists of them are given."""

    def made(count: int) -> ModelProto:
        choices = [[None if a is None else numbers(a) for a in each] for each in more] or [[]]
        constants = {f"c{k}_{j}": a for k, each in enumerate(choices) for j, a in enumerate(each) if a is not None}

        def operands(value: str, i: int) -> list[str]:
            k = i % len(choices)
            return [value, *("" if a is None else f"c{k}_{j}" for j, a in enumerate(choices[k]))]

        nodes = chain(op, count, operands, **attributes)
        return model_of(nodes, [("x", shape, dtype)], [f"v{count}"], initializers=constants)

    return made


def numbers(given: Any) -> np.ndarray:
    """Integers as int64, others as float32."""
    found = np.asarray(given)
    return found.astype(np.float32) if found.dtype.kind == "f" else found


def cycle(
    steps: list[tuple[Any, ...]], shape: tuple[Any, ...], constants: Mapping[str, Any], *, dtype: int = FLOAT
) -> Callable[[int], ModelProto]:
    """Several operators in turn: (operator, operands, attributes), where "@" is the value before and "x" the input."""

    def made(count: int) -> ModelProto:
        nodes, last = [], "x"
        for i in range(count):
            op, operands, attributes = steps[i % len(steps)]
            made = f"v{i + 1}"
            given: dict[str, Any] = attributes
            nodes.append(make(op, [last if o == "@" else o for o in operands], [made], **given))
            last = made
        held = {name: np.asarray(array) for name, array in constants.items()}
        return model_of(nodes, [("x", shape, dtype)], [last], initializers=held)

    return made


def sizes(steps: list[tuple[Any, ...]], constants: Mapping[str, Any]) -> Callable[[int], ModelProto]:
    """Arithmetic on the size of the input, which in the end is the length of a Range."""

    def made(count: int) -> ModelProto:
        nodes, last = [make("Shape", ["x"], ["s"]), make("Gather", ["s", "zero"], ["v0"])], "v0"
        for i in range(count):
            op, operands = steps[i % len(steps)]
            nodes.append(make(op, [last if o == "@" else o for o in operands], [f"v{i + 1}"]))
            last = f"v{i + 1}"
        nodes += [make("Min", [last, "cap"], ["end"]), make("Range", ["zero", "end", "one"], ["y"])]
        held = {"zero": 0, "one": 1, "two": 2, "cap": 9, **constants}
        return model_of(nodes, [("x", ("n", 3))], ["y"], initializers={k: np.array(v) for k, v in held.items()})

    return made


def deep_ifs(count: int) -> ModelProto:
    """Ifs one behind the other, each with two branches over what came before. (Nested ones are refused from 64 on.)"""
    nodes, last = [], "x"
    for i in range(count):
        then = branch([make("Relu", [last], [f"t{i}"])], [f"t{i}"])
        other = branch([make("Neg", [last], [f"e{i}"])], [f"e{i}"])
        nodes.append(make("If", ["c"], [f"v{i}"], then_branch=then, else_branch=other))
        last = f"v{i}"
    return model_of(nodes, [("x", (2,)), ("c", (), BOOL)], [last])


def nested_ifs(count: int) -> ModelProto:
    """Ifs in both branches of Ifs, as deep as a file may be (their number, not their depth, grows)."""

    def inside(left: int) -> Nodes:
        if left <= 1:
            return [make("Relu", ["x"], ["o"])]
        half = branch([*inside(left // 2)], ["o"])
        return [make("If", ["c"], ["o"], then_branch=half, else_branch=branch([*inside(left // 2)], ["o"]))]

    return model_of(inside(count), [("x", (2,)), ("c", (), BOOL)], ["o"])


def wide_loop(count: int) -> ModelProto:
    """A loop that carries many values."""
    names = [f"s{i}" for i in range(count)]
    body_nodes = [make("Identity", ["c"], ["c2"]), *(make("Add", [n, "x"], [n + "o"]) for n in names)]
    infos = [helper.make_tensor_value_info("i", INT64, ()), helper.make_tensor_value_info("c", BOOL, ())]
    infos += [helper.make_tensor_value_info(n, FLOAT, (2,)) for n in names]
    outs = [
        helper.make_tensor_value_info("c2", BOOL, ()),
        *(helper.make_tensor_value_info(n + "o", FLOAT, (2,)) for n in names),
    ]
    body = helper.make_graph(body_nodes, "body", infos, outs)
    results = [f"y{i}" for i in range(count)]
    return model_of(
        [make("Loop", ["m", "", *["x"] * count], results, body=body)], [("x", (2,)), ("m", (), INT64)], results
    )


def counted_loop(count: int) -> ModelProto:
    """Loops of three trips, one behind the other."""
    nodes, last = [], "x"
    for i in range(count):
        infos = [
            helper.make_tensor_value_info(f"i{i}", INT64, ()),
            helper.make_tensor_value_info(f"c{i}", BOOL, ()),
            helper.make_tensor_value_info(f"s{i}", FLOAT, (2,)),
        ]
        outs = [helper.make_tensor_value_info(f"d{i}", BOOL, ()), helper.make_tensor_value_info(f"o{i}", FLOAT, (2,))]
        inner = [make("Identity", [f"c{i}"], [f"d{i}"]), make("Add", [f"s{i}", f"s{i}"], [f"o{i}"])]
        nodes.append(make("Loop", ["m", "", last], [f"v{i}"], body=helper.make_graph(inner, "body", infos, outs)))
        last = f"v{i}"
    return model_of(nodes, [("x", (2,))], [last], initializers={"m": np.array(3)})


def calls(count: int) -> ModelProto:
    """One function of two nodes, called again and again."""
    made = function("f", ["a"], ["b"], [make("Add", ["a", "a"], ["t"]), make("Relu", ["t"], ["b"])])
    nodes = chain("f", count, lambda v, i: [v], domain="local")
    model = model_of(nodes, [("x", (2,))], [f"v{count}"], functions=[made])
    model.opset_import.append(helper.make_opsetid("local", 1))
    return model


def ladder(count: int) -> ModelProto:
    """Split into two halves, which are put together the other way round."""
    nodes, last = [], "x"
    for i in range(count):
        nodes += [
            make("Split", [last], [f"a{i}", f"b{i}"], axis=0, num_outputs=2),
            make("Concat", [f"b{i}", f"a{i}"], [f"v{i}"], axis=0),
        ]
        last = f"v{i}"
    return model_of(nodes, [("x", (8, 2))], [last])


def sums(count: int) -> ModelProto:
    """Each value is the sum of all before it."""
    nodes: Nodes = []
    names = ["x"]
    for i in range(count):
        nodes.append(make("Sum", [names[-1], names[-1], names[0]], [f"v{i}"]))
        names.append(f"v{i}")
    return model_of(nodes, [("x", ("n", 2))], [names[-1]])


def wide_concat(count: int) -> ModelProto:
    """Slices of one value, all of them put together, and summed in a tree."""
    constants = {f"k{i}": np.array([i]) for i in range(count + 1)}
    nodes = [make("Slice", ["x", f"k{i}", f"k{i + 1}"], [f"p{i}"]) for i in range(count)]
    nodes.append(make("Concat", [f"p{i}" for i in range(count)], ["y"], axis=0))
    return model_of(nodes, [("x", (count, 2))], ["y"], initializers=constants)


def pyramids(op: str) -> Callable[[int], ModelProto]:
    """Each value is an operator over the two before it, as Fibonacci's numbers are."""

    def made(count: int) -> ModelProto:
        names = ["x", "z"]
        nodes = []
        for i in range(count):
            nodes.append(make(op, [names[-1], names[-2]], [f"v{i}"]))
            names.append(f"v{i}")
        return model_of(nodes, [("x", (2,)), ("z", (2,))], [names[-1]])

    return made


def doubling(count: int) -> ModelProto:
    """Concats of a value with itself, of twice the length each; after forty, one element is taken of it."""
    nodes, last = [], "x"
    for i in range(count):
        back = make("Slice", [last, "zero", "one"], [f"v{i}"])
        nodes.append(back if i % 40 == 39 else make("Concat", [last, last], [f"v{i}"], axis=0))
        last = f"v{i}"
    nodes.append(make("Slice", [last, "zero", "one"], ["y"]))
    return model_of(nodes, [("x", ("n",))], ["y"], initializers={"zero": np.array([0]), "one": np.array([1])})


ONE = np.ones(2, np.float32)
FAMILIES: Mapping[str, Callable[[int], ModelProto]] = {
    "doubling concats": doubling,
    "concat of itself, empty": twice("Concat", (0,), axis=0),
    "concat with a constant": over("Concat", ("n",), [[1.0]], axis=0),
    "where of itself": cycle(
        [("Where", ["c", "@", "x"], {}), ("Where", ["d", "x", "@"], {})], (2,), {"c": [True, False], "d": [False, True]}
    ),
    "where nested": cycle([("Greater", ["x", "o"], {}), ("Where", ["@", "x", "o"], {})], (2,), {"o": ONE}),
    "sum of itself": twice("Add"),
    "sum of three": sums,
    "product of itself": twice("Mul"),
    "and of itself": twice("And", dtype=BOOL),
    "or ladder": pyramids("Max"),
    "fibonacci of sums": pyramids("Add"),
    "fibonacci of products": pyramids("Mul"),
    "max of itself": twice("Max"),
    "min and max": cycle([("Min", ["@", "a"], {}), ("Max", ["@", "b"], {})], (2,), {"a": ONE, "b": -ONE}),
    "subtraction of itself": twice("Sub"),
    "matrix squared": twice("MatMul", (2, 2)),
    "einsum": twice("Einsum", (2, 2), equation="ij,jk->ik"),
    "reshape tower": over("Reshape", ("n", 4), [[-1, 2]], [[-1, 4]]),
    "transpose tower": over("Transpose", (2, 3, 4), perm=[1, 2, 0]),
    "reshape and transpose": cycle(
        [("Reshape", ["@", "a"], {}), ("Transpose", ["@"], {"perm": [1, 0]})], (4, 6), {"a": [4, 6]}
    ),
    "views": cycle(
        [
            ("Unsqueeze", ["@", "z"], {}),
            ("Squeeze", ["@", "z"], {}),
            ("Flatten", ["@"], {"axis": 1}),
            ("Reshape", ["@", "a"], {}),
        ],
        ("n", 4),
        {"z": [0], "a": [-1, 4]},
    ),
    "slices": cycle(
        [("Slice", ["@", "one", "far"], {}), ("Concat", ["@", "@"], {"axis": 0}), ("Slice", ["@", "one", "four"], {})],
        (4,),
        {"one": [1], "far": [99], "four": [4]},
    ),
    "pads": over("Pad", ("n",), [[1, 0]], [[0, 1]]),
    "tiles": over("Tile", (0, 2), [[2, 1]]),
    "expands": over("Expand", (1, 2), [[1, 2]], [[3, 1]]),
    "tile and slice": cycle(
        [("Tile", ["@", "two"], {}), ("Slice", ["@", "zero", "three"], {})],
        (3,),
        {"two": [2], "zero": [0], "three": [3]},
    ),
    "gather of gather": over("Gather", (3, 2), [[2, 0, 1]], axis=0),
    "casts": cycle([("Cast", ["@"], {"to": TensorProto.DOUBLE}), ("Cast", ["@"], {"to": FLOAT})], (2,), {}),
    "casts and additions": cycle(
        [("Cast", ["@"], {"to": INT64}), ("Cast", ["@"], {"to": FLOAT}), ("Add", ["@", "o"], {})], (2,), {"o": ONE}
    ),
    "ladder of splits": ladder,
    "slices put together": wide_concat,
    "ifs in a row": deep_ifs,
    "ifs in ifs": nested_ifs,
    "wide loop": wide_loop,
    "loops of three trips": counted_loop,
    "calls of a function": calls,
    "affine": cycle(
        [("Mul", ["@", "o"], {}), ("Add", ["@", "o"], {}), ("Sub", ["@", "x"], {})], ("n", 2), {"o": 2 * ONE}
    ),
    "negations": cycle([("Neg", ["@"], {}), ("Abs", ["@"], {}), ("Not", ["c"], {})][:2], (2,), {}),
    "relus": over("Relu", (2,)),
    "reductions": cycle([("ReduceSum", ["@", "z"], {"keepdims": 1}), ("Mul", ["@", "x"], {})], (2, 3), {"z": [1]}),
    "sizes squared": sizes([("Mul", ["@", "@"])], {}),
    "sizes plus one, squared": sizes([("Add", ["@", "one"]), ("Mul", ["@", "@"])], {}),
    "sizes (n+1)^k": sizes([("Mul", ["@", "@"]), ("Add", ["@", "v0"])], {}),
    "sizes divided": sizes([("Add", ["@", "one"]), ("Div", ["@", "two"])], {}),
    "remainders in quotients": sizes(
        [("Mod", ["@", "seven"]), ("Mul", ["@", "v0"]), ("Div", ["@", "two"])], {"seven": 7}
    ),
    "sizes doubled": sizes([("Add", ["@", "@"])], {}),
    "sizes multiplied": sizes([("Mul", ["@", "two"]), ("Add", ["@", "v0"])], {}),
    "maxima of sizes": sizes(
        [("Add", ["@", "one"]), ("Max", ["@", "v0"]), ("Min", ["@", "hundred"])], {"hundred": 100}
    ),
    "pools": cycle(
        [
            ("MaxPool", ["@"], {"kernel_shape": [2], "strides": [2], "pads": [1, 1]}),
            ("Concat", ["@", "x"], {"axis": 2}),
        ],
        (1, 1, "n"),
        {},
    ),
    "concats of sizes": cycle(
        [("Concat", ["@", "x"], {"axis": 0}), ("Slice", ["@", "one", "far"], {})], ("n",), {"one": [1], "far": [2**62]}
    ),
}
