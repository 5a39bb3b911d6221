"""Graphs as text: what is printed reads back the same, and what is not a graph is refused with its place."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

import irkit
from irkit import Fact, Graph, ParseError, Port, Signature, Value, const, op, param, parse, tensor
from irkit.core.attributes import freeze
from irkit.core.literals import array_of, array_text, element_texts, float_of, float_text, quoted_text, unquoted_text
from irkit.core.printer import excerpt, large_blobs, print_graph, value_names
from irkit.core.types import DType
from irkit.ops.schemas import names, spec
from irkit.support.counts import count_text
from irkit.testing import typed_graphs

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.ir"))

RELU = "input %x: f32[n]\n%0: f32[n] = Relu(%x)\nreturn %0"


def chain(length: int) -> Graph:
    x = param(tensor("f32", "n"))
    value = x
    for _ in range(length):
        value = op.Relu(value)
    return Graph((x,), (value,))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden_texts_are_what_is_printed(file: Path) -> None:
    text = file.read_text(encoding="utf-8").rstrip("\n")
    graph = parse(text)
    assert str(graph) == text
    again = parse(graph.text())
    assert (again, again.signature, again.symbols, again.name) == (graph, graph.signature, graph.symbols, graph.name)


def test_print_says_names_roles_ranges_facts_and_origins() -> None:
    x, cache = param(tensor("f32", "batch", 64)), param(tensor("f32", 64))
    total = op.Add(x, cache).with_origin(irkit.Origin(source="nn.py:41", module="encoder.fc1"))
    signature = Signature(
        (Port("x"), Port("past.0", "state")),
        (Port("y", "output"), Port("new past", "state", "past.0")),
        (Fact("guard", "batch != 3", "nn.py:7"),),
        (("torch", "2.13"),),
    )
    symbols = irkit.Graph((), ()).symbols.set("batch", irkit.Range(1))
    graph = Graph((x, cache), (total, cache), symbols, signature, "main")
    assert str(graph).split("\n") == [
        "graph main {",
        "  symbol batch in [1, inf]",
        "  input %x: f32[batch, 64]",
        "  state %past.0: f32[64]",
        '  fact guard "batch != 3" from "nn.py:7"',
        '  metadata torch = "2.13"',
        "  %0: f32[batch, 64] = Add(%x, %past.0)  # nn.py:41 encoder.fc1",
        "  return %0 as y",
        '  return %past.0 as "new past" role state binds past.0',
        "}",
    ]
    assert parse(graph.text()).signature == signature


def test_an_origin_never_breaks_its_line() -> None:
    x = param(tensor("f32", 2))
    value = op.Relu(x).with_origin(irkit.Origin(source="a\nb.py:3", module="}\r\n# x"))
    graph = Graph((x,), (value,))
    assert parse(graph.text()) == graph


def test_values_of_one_public_name_are_told_apart() -> None:
    x, y = param(tensor("f32", 2)), param(tensor("f32", 2))
    weights = const(np.ones(2, np.float32), name="x"), const(np.zeros(2, np.float32), name="0")
    total = op.Add(op.Add(x, weights[0]), op.Add(y, weights[1]))
    graph = Graph((x, y), (total,), signature=Signature((Port("x"), Port("inf"))))
    names = list(value_names(graph).values())
    assert names == ["%x", '%"inf"', "%0", "%1", '%"0"', "%2", "%3"]
    again = parse(graph.text())
    assert again == graph
    assert [v.blob.name for v in again.order if v.blob is not None] == ["x", "0"]


@pytest.mark.parametrize("kind", [d for d in DType if d is not DType.STRING], ids=lambda d: d.short)
def test_every_bit_pattern_of_a_small_constant_survives(kind: DType) -> None:
    if kind is DType.BOOL:
        array = np.array([True, False])
    elif kind.is_integer:
        low = 0 if kind.is_unsigned else -(2 ** (kind.bits - 1))
        span = 2**kind.bits
        values = range(low, low + span) if span <= 256 else [low, low + span - 1, 0, 1, low + 7]
        array = np.array(list(values), dtype=np.uint64 if kind is DType.UINT64 else np.int64).astype(kind.numpy)
    elif kind.bits <= 8:
        array = np.arange(2**kind.bits, dtype=np.uint8).view(kind.numpy)
    else:
        array = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8).view(kind.numpy)
        extreme = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 65504.0, 1.0])
        array = np.concatenate(
            [array, extreme.astype(np.complex128 if kind.is_complex else np.float64).astype(kind.numpy)]
        )
    for start in range(0, array.size, 64):
        part = array[start : start + 64]
        graph = Graph((), (const(part),))
        again = parse(graph.text())
        assert again == graph
        assert again.order[0].blob is not None
        assert again.order[0].blob.array.tobytes() == part.tobytes()


def test_constants_of_every_shape() -> None:
    for shape in [(), (0,), (1,), (2, 3), (2, 0, 3), (1, 1, 1, 1), (3, 1), (20,), (4, 5)]:
        data = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        for array in (data, np.full_like(data, -0.0), data.astype(np.int64)):
            graph = Graph((), (const(array),))
            assert parse(graph.text()) == graph, shape
    assert array_text(np.zeros((3, 4)), DType.DOUBLE) == "fill 0.0"
    assert array_text(np.zeros((2, 2)), DType.DOUBLE) == "[[0.0, 0.0], [0.0, 0.0]]"


def test_strings_and_bytes_survive() -> None:
    texts = ["", "a b", '"', "\\", "\n\r\t\0", "é漢😀", "\ud800", "\u2028", "# no comment", "%x"]
    for text in texts:
        assert unquoted_text(quoted_text(text)) == text
        assert "\n" not in quoted_text(text)
    array = np.array([*texts[:-4], "x", b"\xff\x00", b""], dtype=object)
    x = param(tensor("f32", 2))
    value = Value("my::op", (x,), freeze({"s": texts[5], "b": b"\x00\xff", "names": texts[:5]}), (), x.type)
    graph = Graph((x,), (value, const(array)), name='odd "name"')
    again = parse(graph.text())
    assert again == graph
    assert again.name == graph.name
    assert list(again.results[1].blob.array) == list(array)  # type: ignore[union-attr]


def test_attributes_keep_their_kinds() -> None:
    given = {
        "i": 1, "f": 1.0, "neg": -0.0, "inf": float("-inf"), "small": 9.999999747378752e-06, "double": 0.1,
        "big": 1e300, "none": (), "mixed": (1, 1.0, "x", (2, ())), "type": irkit.Sequence(tensor("i64", "n")),
        "dims": (irkit.symbol("n"), 4), "dim": irkit.symbol("n") * 2, "blob": np.array([[1, 2]], np.int8),
    }  # fmt: skip
    x = param(tensor("f32", "n"))
    graph = Graph((x,), (Value("my::op", (x, None, x), freeze(given), (), x.type),))
    again = parse(graph.text())
    assert again == graph
    for (name, a), (_, b) in zip(graph.results[0].attributes, again.results[0].attributes, strict=True):
        if name not in ("blob", "dim", "dims"):
            assert (repr(a), type(a)) == (repr(b), type(b)), name
    assert repr(parse(str(Graph((), (Value("a::b", (), (("x", float("nan")),), (), x.type),)))).results[0].attributes)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, 0.1, 1e-5, 3.4e38, 1e39, 5e-324, 1 / 3, 16777217.0, float("inf")])
def test_float_attributes_are_those_of_onnx_or_marked(number: float) -> None:
    assert repr(float_of(float_text(number))) == repr(number)
    single = float(np.float32(number)) if number < 1e38 else 1.5
    assert repr(float_of(float_text(single))) == repr(single)
    assert not float_text(single).endswith("d")


def test_unknown_and_signed_sizes_survive() -> None:
    u, v, offset = irkit.fresh(), irkit.fresh(), irkit.symbol("offset", signed=True)
    x = param(irkit.Tensor(DType.FLOAT, (u, v + 2 * u, irkit.symbol("odd name"))))
    y = param(irkit.Tensor(DType.FLOAT, (v, u)))
    value = Value("my::op", (x, y), (("dims", (offset, u, 3)),), (), y.type)
    graph = Graph((x, y), (value,))
    text = str(graph)
    assert "symbol offset signed" in text and "?0" in text and "?1" in text
    again = parse(text)
    assert again == graph and str(again) == text
    (a, _, _), (_, same_a) = again.params[0].shape, again.params[1].shape
    assert a is same_a and irkit.dims.is_fresh(a)  # one mark, one size
    assert irkit.dims.same(a, parse(text).params[0].shape[0]) is None  # of another reading, another


def test_a_body_in_many_places_is_printed_once_and_stays_one() -> None:
    x = param(tensor("f32", "n"))
    inner = param(x.type)
    layer = Graph((inner,), (op.Relu(inner),), name="layer")
    value = x
    for _ in range(32):
        value = irkit.call_graph(layer, value)
    graph = Graph((x,), (value,))
    assert str(graph).count("Relu") == 1
    again = parse(graph.text())
    assert again == graph
    assert len({id(v.bodies[0]) for v in again.order if v.bodies}) == 1
    nested = graph
    for _ in range(10):  # 32 ** 10 bodies, were they written out
        outer = param(x.type)
        result = outer
        for _ in range(32):
            result = irkit.call_graph(nested, result)
        nested = Graph((outer,), (result,))
    assert len(str(nested)) < 50_000
    assert parse(nested.text()) == nested


# ---------------------------------------------------------------------------------------------- large constants


def with_weights(*names: str) -> Graph:
    x = param(tensor("f32", "n", 64))
    value = x
    for i, name in enumerate(names):
        value = op.MatMul(value, const(np.full((64, 64), i, np.float32), name=name))
    return Graph((x,), (value,))


def test_large_constants_are_named_and_handed_in() -> None:
    graph = with_weights("a.weight", "b", "b", "")
    text = str(graph)
    assert [line.split("= ")[1] for line in text.split("\n") if "Constant" in line] == [
        'Constant blob "a.weight"',
        'Constant blob 1 as "b"',
        'Constant blob 2 as "b"',
        "Constant blob 3",
    ]
    assert len(text) < 1000
    assert parse(text, graph) == graph
    assert parse(text, parse(text, blobs=graph)) == graph
    arrays = {label.strip('"'): blob.array for label, blob in large_blobs(graph).items()}
    assert parse(text, arrays) == graph
    assert parse(text, {"a.weight": arrays["a.weight"], 1: arrays["1"], 2: arrays["2"], 3: arrays["3"]}) == graph
    hashed = print_graph(graph, hashes=True)
    assert hashed.count("blob#") == 4
    assert parse(hashed, graph) == graph
    assert parse(hashed, {blob.digest.hex(): blob for blob in large_blobs(graph).values()}) == graph


def test_missing_and_unfitting_contents_are_refused() -> None:
    text = str(with_weights("w"))
    with pytest.raises(ParseError, match='content of blob "w" is not in the text') as caught:
        parse(text)
    assert "^^^^" in caught.value.ir
    for wrong in (np.zeros((64, 63), np.float32), np.zeros((64, 64))):
        with pytest.raises(ParseError, match="where the text says"):
            parse(text, {"w": wrong})


def test_one_label_is_one_blob_and_no_content_is_read() -> None:
    def load() -> np.ndarray:
        raise AssertionError("the content was read")

    blob = irkit.Blob(DType.FLOAT, (1 << 20, 1 << 10), load, "huge")
    x = param(tensor("f32", "n", 1 << 20))
    once = irkit.constant(blob)
    graph = Graph((x,), (op.MatMul(x, once), op.MatMul(x, irkit.constant(blob))))
    text = str(graph)
    assert text.count('blob "huge"') == 2
    again = parse(text, graph)
    assert len({id(v.blob) for v in again.order if v.blob is not None}) == 1


def test_save_text_and_load_text(tmp_path: Path) -> None:
    kinds = [d for d in DType if d is not DType.STRING]
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, (60, 60)).astype(d.numpy) for d in kinds]
    arrays.append(np.array(["é", "", "x" * 3000], dtype=object))
    arrays.append(np.asfortranarray(rng.standard_normal((50, 40)).astype(np.float32)).T)
    arrays.append(arrays[-1].copy())
    graph = Graph((), tuple(const(a, name=f"w{i}") for i, a in enumerate(arrays)), name="kinds")
    irkit.save_text(graph, tmp_path / "g.irkit")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.irkit", "g.irkit.safetensors"]
    again = irkit.load_text(tmp_path / "g.irkit")
    for before, after in zip(graph.results, again.results, strict=True):
        assert before.blob is not None and after.blob is not None
        assert before.blob.name == after.blob.name
        assert before.blob.array.dtype == after.blob.array.dtype
        if before.dtype is DType.STRING:
            assert before.blob.array.tolist() == after.blob.array.tolist()
        else:
            assert before.blob.array.tobytes() == after.blob.array.tobytes()
    assert again == graph
    irkit.save_text(with_weights(), tmp_path / "none.irkit")
    assert not (tmp_path / "none.irkit.safetensors").exists()
    assert irkit.load_text(tmp_path / "none.irkit") == with_weights()


def test_the_side_file_is_safetensors(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    graph = with_weights("a", "b")
    irkit.save_text(graph, tmp_path / "g.irkit")
    stored = safetensors.load_file(tmp_path / "g.irkit.safetensors")
    expected = {b.digest.hex(): b.array for b in large_blobs(graph).values()}
    assert stored.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(stored[key], array)
    safetensors.save_file(stored, tmp_path / "g.irkit.safetensors")
    assert irkit.load_text(tmp_path / "g.irkit") == graph


@pytest.mark.parametrize("broken", ["missing", "short", "noise", "outside", "json", "text"])
def test_broken_files_are_refused(tmp_path: Path, broken: str) -> None:
    irkit.save_text(with_weights("a"), tmp_path / "g.irkit")
    side, main = tmp_path / "g.irkit.safetensors", tmp_path / "g.irkit"
    data = side.read_bytes()
    match broken:
        case "missing":
            side.unlink()
        case "short":
            side.write_bytes(data[:-8])
        case "noise":
            side.write_bytes(b"\xff" * 100)
        case "outside":
            side.write_bytes(data.replace(b"[0, 16384]", b"[8, 99999]"))
        case "json":
            side.write_bytes(data.replace(b'"data_offsets"', b'"data_offset_"'))
        case "text":
            main.write_bytes(b"\xff\xfe")
    with pytest.raises(ParseError):
        irkit.load_text(main)


# ---------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "holds no graph"),
        ("graph", "line 1, column 6: expected the name of the graph, and found the end of the line"),
        ("graph x {", "ends before `}`"),
        ("input %x: f32[2]", "ends before a `return` line"),
        (RELU + "\n}", "line 4, column 1: there is no graph for this brace to close"),
        ("graph a {\nreturn\n}\nreturn", "line 4, column 1: the graph has ended"),
        ("%0: f32[2] = Relu(%x)\nreturn %0", "line 1, column 19: %x is not defined"),
        ("input %x: f32[n]\nreturn %y", "line 2, column 8: %y is not defined"),
        ("input %x: f32[n]\ninput %x: f32[n]\nreturn %x", "line 2, column 7: %x is defined twice"),
        ("input %x: f32[n]\n%x: f32[n] = Relu(%x)\nreturn %x", "line 2, column 1: %x is defined twice"),
        ("input %x: f99[2]\nreturn %x", "line 1, column 11: `f99` is not a type"),
        ("input %x: f32[2\nreturn %x", "`]` is missing"),
        ("input %x: f32[a +]\nreturn %x", "line 1, column 15: `a +` is not a dimension"),
        ("input %x: f32[-1]\nreturn %x", "below zero"),
        ("input %x: f32[0.5]\nreturn %x", "is not a dimension"),
        ("input %x: f32[1 // 0]\nreturn %x", "is not a dimension"),
        ("input %x: f32[(a+b+c+d+e+f)**64]\nreturn %x", "is not a dimension"),
        ("input %x: f32[2] as y z\nreturn %x", "left over"),
        ("input %x: f32[2] $\nreturn %x", "`$` is left over"),
        ("%0: f32[] = Constant 1.0\ninput %x: f32[]\nreturn %x", "parameters come before"),
        ("%0: f32[] = Param()\nreturn %0", "a parameter has a line of its own kind"),
        (
            "%0: f32[2] = Constant [1.0]\nreturn %0",
            "column 23: the shape [2] has 2 elements, and the text gives 1",
        ),
        ("%0: f32[n] = Constant [1.0]\nreturn %0", "a constant cannot be a f32[n]"),
        ("%0: u8[1] = Constant [256]\nreturn %0", "256 does not fit u8"),
        ("%0: i8[1] = Constant [1.5]\nreturn %0", "invalid literal"),
        ("%0: f16[1] = Constant [1e6]\nreturn %0", "1e6 does not fit f16"),
        ("%0: f16[1] = Constant [0x12345]\nreturn %0", "has more than 16 bits"),
        ("%0: bool[1] = Constant [maybe]\nreturn %0", "neither true nor false"),
        ("%0: f32[99999999999] = Constant fill 0.0\nreturn %0", "too large for the text"),
        ("%0: f32[2] = Constant [1.0, 2.0\nreturn %0", "expected `,`"),
        ("%0: f32[] = A() {x = 1, x = 2}\nreturn %0", "attribute x is given twice"),
        ("%0: f32[] = A() {x = 1e300}\nreturn %0", "1e300 does not fit f32"),
        ("%0: f32[] = A() {x = }\nreturn %0", "is not a type"),
        ('%0: f32[] = A() {x = "\\q"}\nreturn %0', "malformed escape"),
        ('%0: f32[] = A() {x = b"\\u1234"}\nreturn %0', "malformed escape"),
        ("%0: f32[] = A() then {\nreturn\n}\nreturn %0", "`then` is not a body of A"),
        ("%0: f32[] = A() body @3\nreturn %0", "expected `{`"),
        ("%0: f32[] = A() body {\n%1: f32[] = B()\n}\nreturn %0", "without a `return` line"),
        ("return\n%0: f32[] = A()", "behind the `return` line"),
        ("input %x: f32[n]\nsymbol n signed\nreturn %x", "declared before the first line that has a type"),
        ("symbol n in [0, inf]\nsymbol n in [1, 2]\nreturn", "declared twice"),
        ("symbol n in [0.5, 2]\nreturn", "not a whole number"),
        ("param %a: f32[]\ninput %b: f32[]\nreturn", "without a public name stands before"),
        ("input %x: f32[] as y role outpu\nreturn %x", "line 1, column 27: a port has no role 'outpu'"),
        ("param %x: f32[] as y\nreturn %x", "line 1, column 17: a port has no role 'param'"),
        ("hello %x", "no line begins with `hello`"),
    ],
)
def test_errors_name_the_place(text: str, what: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert what in caught.value.what


def test_an_error_underlines_the_line_between_its_neighbours() -> None:
    with pytest.raises(ParseError) as caught:
        parse("input %first: f32[2]\ninput %second: f32[2]\n%0: f32[2] = Add(%frist, %second)\nreturn %0")
    assert str(caught.value) == (
        "line 3, column 18: %frist is not defined above this line\n"
        "  in the graph:\n"
        "        1 | input %first: f32[2]\n"
        "        2 | input %second: f32[2]\n"
        "        3 | %0: f32[2] = Add(%frist, %second)\n"
        "                             ^^^^^^\n"
        "        4 | return %0\n"
        "  try: did you mean %first?"
    )


@pytest.mark.parametrize(
    "text",
    [
        "graph a {\n" * 3,
        "%0: f32[] = A() body {\n" * 100,
        "input %x: " + "seq(" * 5000 + "f32[]" + ")" * 5000,
        "%0: f32[] = A() {a = " + "[" * 5000,
        "input %x: f32[" + "(" * 5000 + ")" * 5000 + "]",
        "input %x: f32[" + "-" * 5000 + "a]",
        "input %x: f32[" + "9" * 5000 + "]",
        "input %x: f32[" + "a*" * 5000 + "a]",
        "symbol n in [0, " + "9" * 5000 + "]",
        "%0: f32[] = A() {a = " + "9" * 5000 + "}",
        "%0: f64[1] = Constant [" + "9" * 5000 + "]",
        "%" * 10_000,
        '"' * 9_999,
        "\0",
    ],
)
def test_hostile_texts_are_refused_quickly(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text + "\nreturn")


def test_no_mutation_of_a_text_gets_past_parse_error() -> None:
    rng = random.Random(0)
    texts = [file.read_text(encoding="utf-8") for file in GOLDEN]
    pieces = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        "=",
        "%",
        "%0",
        '"',
        "?",
        "@0",
        "\n",
        " ",
        "inf",
        "0x",
        "-",
        "f32",
        "Constant",
    ]
    for _ in range(1500):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            at, span = rng.randrange(len(text)), rng.choice([0, 0, 1, 5, 40])
            text = text[:at] + rng.choice([*pieces, ""]) + text[at + span :]
        try:
            parse(text)
        except ParseError as error:
            assert re.match(r"line \d+|the text", error.what)


def test_whitespace_comments_and_returns_do_not_matter() -> None:
    tidy = parse(RELU)
    assert (
        parse("graph g {\n\n  # note\n\tinput %x : f32 [ n ]  # more\r\n  %0:f32[n]=Relu( %x )\n  return %0\n}\n\n")
        == tidy
    )
    assert parse("input %x: f32[n]\n%1: f32[n] = Neg(%x)\n%0: f32[n] = Relu(%x)\nreturn %0") == tidy  # dead, so absent
    assert parse("return") == Graph((), ())


# ---------------------------------------------------------------------------------------------- excerpts, sizes


def test_excerpt_shows_the_line_between_its_neighbours() -> None:
    graph = chain(10)
    value = graph.order[5]
    lines = excerpt(graph, value).split("\n")
    assert len(lines) == 8
    assert lines[3] == "%5: f32[n] = Relu(%4)"
    assert lines[4] == "^" * len(lines[3])
    assert excerpt(graph, param(tensor("f32", 2))) == ""


def test_deep_chains_print_and_parse() -> None:
    graph = chain(20_000)
    text = str(graph)
    assert parse(text) == graph


def test_arrays_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(ValueError, match="does not fit i4"):
        array_of(["8"], DType.INT4, (1,))
    with pytest.raises(ValueError, match="does not fit f8e4m3fn"):
        array_of(["1e6"], DType.FLOAT8E4M3FN, (1,))
    assert element_texts(np.array([0.1], ml_dtypes.bfloat16), DType.BFLOAT16) == ["0.100098"]


# ---------------------------------------------------------------------------------------------- defaults


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ("Gemm(%x, %x) {alpha = 1.0, beta = 1, transA = 0, transB = 1}", lambda x: op.Gemm(x, x, transB=1)),
        ("Gemm(%x, %x, _) {alpha = 2, transB = 1}", lambda x: op.Gemm(x, x, alpha=2.0, transB=1)),
        ("Gemm(%x, %x) {transB = 1, beta = 0.5}", lambda x: op.Gemm(x, x, beta=0.5, transB=1)),
        ("Softmax(%x) {axis = -1}", op.Softmax),
        ("Clip(%x, _, _)", op.Clip),
        ('Resize(%x, _, %s) {mode = "nearest"}', lambda x: op.Resize(x, None, const(np.ones(2, np.float32)))),
    ],
    ids=["defaults", "an integer for a float", "order", "negative axis", "operands left out", "text"],
)
def test_what_stands_at_its_default_is_left_out(written: str, built: Callable[[Value], Value]) -> None:
    text = f"input %x: f32[2, 2]\n%s: f32[2] = Constant [1.0, 1.0]\n%0: f32[2, 2] = {written}\nreturn %0"
    graph = irkit.verify(parse(text))
    x = param(tensor("f32", 2, 2))
    expected = Graph((x,), (built(x),), signature=Signature((Port("x"),)))
    assert graph == expected and hash(graph) == hash(expected)
    assert parse(graph.text()) == graph and parse(graph.text()).text() == graph.text() == expected.text()


@irkit.operator("texts::Scale")
def scale(x: Value, *, by: float = 2.0, times: int = 3) -> Value:
    """An operator of one's own, whose defaults the text may say."""
    return op.Mul(x, const(np.float32(by * times)))


def test_defaults_of_operators_of_ones_own_are_left_out() -> None:
    dialect = irkit.dialect("texts", scale)
    x = param(tensor("f32", 2))
    text = "input %x: f32[2]\n%0: f32[2] = texts::Scale(%x) {by = 2, times = 4}\nreturn %0"
    found = parse(text, dialects=dialect)
    assert found == Graph((x,), (scale(x, times=4),))
    assert parse(found.text(), dialects=dialect) == found
    unknown = parse(text)  # nobody says here what its defaults are
    assert unknown.results[0].attributes == (("by", 2), ("times", 4))


KNOWN = frozenset(names())


def with_defaults(graph: Graph) -> Graph:
    """The graph with every attribute written out that stands at its default, in values made without `op`."""
    new: dict[Value, Value] = {}
    for value in graph.order:
        inputs = tuple(None if v is None else new[v] for v in value.inputs)
        bodies = tuple(with_defaults(body) for body in value.bodies)
        given = dict(value.attributes)
        if value.op in KNOWN:
            rows = spec(value.op).attributes.values()
            given = {r.name: r.default for r in rows if r.default is not None and not r.required} | given
        new[value] = Value(value.op, inputs, tuple(sorted(given.items())), bodies, value.type)
    params, results = (tuple(new[v] for v in values) for values in (graph.params, graph.results))
    return Graph(params, results, graph.symbols, graph.signature, graph.name)


@given(typed_graphs())
def test_a_text_with_every_default_is_the_graph_that_was_built(graph: Graph) -> None:
    full = with_defaults(graph)
    again = parse(full.text(), blobs=full)
    assert again == graph and hash(again) == hash(graph)
    assert parse(again.text(), blobs=again).text() == again.text()


# ---------------------------------------------------------------------------------------------- what is printed


@pytest.mark.parametrize("kind", list(DType), ids=lambda d: d.short)
def test_what_is_printed_names_long_constants_and_the_text_holds_them(kind: DType) -> None:
    bits = np.arange(33) % 2
    array = np.array([str(b) for b in bits], dtype=object) if kind is DType.STRING else bits.astype(kind.numpy)
    alike = np.array([array[1]] * 40, dtype=array.dtype)
    graph = Graph((), (const(array, name="w"), const(array[:32]), const(alike), const(array)))
    printed = [line.partition("= ")[2] for line in str(graph).splitlines() if "Constant" in line]
    assert printed[0] == 'Constant blob "w"' and printed[3] == "Constant blob 1"
    assert printed[1].startswith("Constant [") and printed[2].startswith("Constant fill ")
    assert "blob" not in graph.text()
    assert parse(graph.text()) == graph == parse(str(graph), blobs=graph)
    scalar = Graph((), (const(array[1]), const(array[:1]), const(array[:0])))
    assert parse(scalar.text()) == scalar
    assert parse(str(graph), {"w": array, 1: array}) == graph
    with pytest.raises(ParseError, match='the content of blob "w" is not in the text') as caught:
        parse(str(graph))
    assert "graph.text()" in caught.value.hint


def test_labels_are_the_same_in_what_is_printed_and_in_the_text() -> None:
    small, large = np.arange(64, dtype=np.float32), np.arange(4096, dtype=np.float32)
    graph = Graph((), tuple(const(a) for a in (small, large, small + 1, large + 1)))
    assert [line.partition("Constant ")[2] for line in graph.text().splitlines() if "blob" in line] == [
        "blob 1",
        "blob 3",
    ]
    assert parse(graph.text(), blobs=graph) == graph == parse(str(graph), blobs=graph)


@pytest.mark.parametrize(
    ("graph", "counts"),
    [(Graph((), ()), "0 params, 0 operators, 0 results"), (chain(1), "1 param, 1 operator, 1 result")],
    ids=["none", "one"],
)
def test_a_graph_counts_in_english(graph: Graph, counts: str) -> None:
    assert repr(graph) == f"<Graph graph: {counts}>"
    assert count_text(1, "axis", "axes") == "1 axis" and count_text(1200, "axis", "axes") == "1,200 axes"
