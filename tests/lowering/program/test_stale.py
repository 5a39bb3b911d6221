"""A content is the value that it had when the graph was made: small ones are copied, large ones refuse once changed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch

import irkit
from irkit import op, tensor
from irkit.checking.rules import random_sample
from irkit.core.blobs import COPIED, Blob, blob
from irkit.core.ir import Graph, Value, constant, param, vertex
from irkit.core.printer import print_graph
from irkit.core.types import DType
from irkit.core.walk import post_order
from irkit.errors import IrkitError, StaleError
from irkit.onnx.sessions import session
from irkit.rewriting.face import rewrite
from lowering import lower
from lowering.capture.inputs.training import tensors_kept
from passes import optimize
from passes.precision import Precision
from tests.tables.rules import RULES

LARGE = 96
"""A square matrix of so many rows of float32 is beyond what is copied."""
X = torch.randn(3, LARGE)


def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(LARGE, LARGE), torch.nn.ReLU(), torch.nn.Linear(LARGE, LARGE)).eval()


def adam(module: torch.nn.Module, **options: Any) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1, **options)
    module(X).square().sum().backward()
    optimizer.step()


@torch.no_grad()
def add(module: torch.nn.Module) -> None:
    module[2].weight.add_(1)  # type: ignore[index]


@torch.inference_mode()
def infer(module: torch.nn.Module) -> None:
    module[2].weight.mul_(2)  # type: ignore[index]


def load(module: torch.nn.Module) -> None:
    module.load_state_dict(model().state_dict())


WRITES: Mapping[str, Callable[[Any], Any]] = {
    "add_": add, "inference mode": infer, "load_state_dict": load, "Adam": adam,
    "Adam, foreach": lambda m: adam(m, foreach=True), "Adam, fused": lambda m: adam(m, fused=True),
    "data": lambda m: m[2].weight.data.add_(1), "numpy": lambda m: m[2].weight.detach().numpy().fill(0),
    "a row": lambda m: torch.no_grad()(lambda: m[2].weight[5].zero_())(),
    "storage": lambda m: m[0].weight.untyped_storage().fill_(1), "init": lambda m: torch.nn.init.zeros_(m[0].weight),
    "shared": lambda m: m[0].share_memory(),
}  # fmt: skip
"""What changes the weights in place, or takes their memory."""

PATHS: Mapping[str, Callable[[Graph, Path], Any]] = {
    "evaluate": lambda g, _: irkit.evaluate(g, [X.numpy()]), "proto": lambda g, _: irkit.to_proto(g),
    "save": lambda g, folder: irkit.save(g, folder / "m.onnx"), "digest": lambda g, _: g.digest,
    "save beside": lambda g, folder: irkit.save(g, folder / "n.onnx", external=True), "hash": lambda g, _: hash(g),
    "==": lambda g, _: g == copy.copy(g).with_results(g.results[:0]), "pickle": lambda g, _: pickle.dumps(g),
    "print": lambda g, _: print_graph(g, hashes=True), "save_text": lambda g, f: irkit.save_text(g, f / "m.irkit"),
    "session": lambda g, _: session(g), "freeze": lambda g, _: irkit.freeze(g),
    "optimize, then proto": lambda g, _: irkit.to_proto(optimize(g)),
    "half, then proto": lambda g, _: irkit.to_proto(Precision(DType.FLOAT16).mixed(g).graph),
}  # fmt: skip
"""What reads all contents of a graph."""


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("asked", [False, True])
def test_every_path_refuses_weights_that_were_written(tmp_path: Path, write: str, asked: bool) -> None:
    module = model()
    graph = lower(module, (X,))
    if asked:  # and what was found is kept
        for path in PATHS.values():
            path(graph, tmp_path)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    WRITES[write](module)
    for name, path in PATHS.items():
        with pytest.raises(StaleError, match=r"the weight \d\.weight (was written in place|got other memory)"):
            path(graph, tmp_path)
            pytest.fail(name)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert "Gemm" in str(graph) and irkit.verify(graph) is graph and graph == graph


@pytest.mark.parametrize("write", ["add_", "Adam, fused", "data", "numpy"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_program_refuses_weights_that_were_written(tmp_path: Path, write: str, asked: bool) -> None:
    module = model()
    program, twin = irkit.to_onnx(module, (X,)), irkit.to_onnx(module, (X,), copy=True)
    before = module(X)
    if asked:
        program(X)
    kept = program.frozen()
    WRITES[write](module)
    for read in (lambda: program.proto, lambda: program.save(tmp_path / "m.onnx"), program.frozen):
        with pytest.raises(StaleError, match="was written in place after the graph was made\n  try: export the model"):
            read()
    if not asked or write == "add_":  # what a session of its own memory answers is what the weights were
        with pytest.raises(StaleError):
            program(X)
    else:
        torch.testing.assert_close(program(X), before)
    for each in (twin, kept):
        torch.testing.assert_close(each(X), before)
        torch.testing.assert_close(torch.tensor(irkit.onnx.sessions.run(each.proto, [X.numpy()])[0]), before)


def test_sessions_that_read_weights_in_place_refuse_them_once_written() -> None:
    rows = torch.nn.Linear(4096, 4200, bias=False)
    program = irkit.to_onnx(rows, (torch.ones(1, 4096),))
    program(torch.ones(1, 4096))
    rows.weight.data.zero_()
    with pytest.raises(StaleError, match="the weight weight was written"):
        program(torch.ones(1, 4096))


def test_what_is_computed_of_a_weight_refuses_with_it(tmp_path: Path) -> None:
    class Normed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(64, 64, 3), torch.nn.BatchNorm2d(64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.conv(x))

    module, x = Normed().eval(), torch.randn(1, 64, 5, 5)
    program = irkit.to_onnx(module, (x,))
    assert [v.op for v in program.ready.order if v.op not in ("Param", "Constant")] == ["Conv"]
    program(x)  # computes the weights of both together
    with torch.no_grad():
        module.conv.weight.mul_(2)
    with pytest.raises(StaleError, match=r"conv\.weight"):
        program.save(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_small_weights_are_copied_and_stay_what_they_were(tmp_path: Path) -> None:
    module, x = torch.nn.Linear(8, 8), torch.randn(2, 8)
    program, before = irkit.to_onnx(module, (x,)), module(x)
    text, digest = str(program.graph), program.graph.digest
    with torch.no_grad():
        module.weight.zero_()
    module.bias.data.zero_()
    assert (str(program.graph), program.graph.digest) == (text, digest)
    torch.testing.assert_close(program(x), before)
    irkit.save(program.ready, tmp_path / "m.onnx")
    torch.testing.assert_close(torch.tensor(session(tmp_path / "m.onnx").run([x.numpy()])[0]), before)
    torch.testing.assert_close(torch.tensor(irkit.evaluate(program.graph, [x.numpy()])[0]), before)


def test_modules_that_get_other_weights_leave_the_graph_as_it_was() -> None:
    for change in (
        lambda m: m.half(),
        lambda m: m.load_state_dict(model().state_dict(), assign=True),
        lambda m: torch.nn.utils.vector_to_parameters(torch.zeros(2 * LARGE * (LARGE + 1)), m.parameters()),
    ):
        module = model()
        graph, before = lower(module, (X,)), module(X)
        change(module)
        torch.testing.assert_close(torch.tensor(irkit.evaluate(graph, [X.numpy()])[0]), before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.complex64])
@pytest.mark.parametrize("form", ["plain", "transposed", "every other", "conjugated"])
def test_tensors_of_all_forms_are_watched(dtype: torch.dtype, form: str) -> None:
    def held() -> torch.Tensor:
        base = torch.arange(4 * LARGE * LARGE).reshape(2 * LARGE, 2 * LARGE).to(dtype)
        forms = {"plain": base, "transposed": base.T, "every other": base[::2, ::2], "conjugated": base.conj()}
        return forms[form]

    def graph_of(weight: torch.Tensor) -> Graph:
        return lower(lambda x: (x + weight).real if weight.is_complex() else x + weight, (torch.zeros(1).to(dtype),))

    weight = held()
    graph, frozen = graph_of(weight), irkit.freeze(graph_of(weight))
    assert frozen == graph and irkit.freeze(frozen) is frozen
    weight[::3].zero_()
    with pytest.raises(StaleError):
        _ = graph.digest
    assert frozen == graph_of(held())


def test_tied_weights_are_frozen_once() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(LARGE, LARGE), torch.nn.Linear(LARGE, LARGE, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(x))

    graph = optimize(lower(Tied(), (torch.arange(3),)))
    frozen = irkit.freeze(graph)
    assert len(irkit.to_proto(frozen).SerializeToString()) == len(irkit.to_proto(graph).SerializeToString())
    assert frozen == graph and irkit.freeze(frozen) is frozen


# ---------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("size", [3, 3000, 300_000])
@pytest.mark.parametrize("made", ["const", "blob", "operand", "attribute", "custom", "mapping", "body"])
def test_arrays_are_copied(size: int, made: str) -> None:
    array = np.arange(size, dtype=np.float32)
    x = param(tensor("f32", size))

    def graph() -> Graph:
        if made == "attribute":
            value = irkit.call("ConstantOfShape", [x], {"value": array[:1]}) if size < 0 else vertex(
                "Constant", (), (("value", blob(array)),), (), tensor("f32", size))  # fmt: skip
        elif made == "custom":
            value = irkit.custom("my::op", x, type=x.type, table=array)
        elif made == "mapping":
            text = str(Graph((x,), (op.Add(x, irkit.const(np.zeros(size, np.float32), name="w")),)))
            return irkit.parse(text, blobs={"w": array, "0": array})
        elif made == "body":
            (value,) = op.If(True, then_branch=lambda: op.Add(x, array), else_branch=lambda: op.Neg(x))
        else:
            value = op.Add(x, {"const": irkit.const, "blob": blob, "operand": lambda a: a}[made](array))
        return Graph((x,), (value,))

    first, second = graph(), graph()
    digest = first.digest
    array += 1
    assert first == second and second.digest == digest and pickle.loads(pickle.dumps(first)) == first
    if made != "mapping" or size > 1000:
        assert graph() != first


def test_a_constant_lends_its_memory_to_nobody() -> None:
    for held in (irkit.const(np.arange(6.0)).blob, blob([1, 2, 3]), irkit.const(["a"]).blob):
        assert held is not None
        for array in (held.array, held.read()):
            with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
                array[...] = array[0]
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True
    x = param(tensor("f32", 2))
    constant_result = Graph((x,), (x, irkit.const(np.ones(40_000, np.float32))))
    found = irkit.evaluate(constant_result, [np.zeros(2, np.float32)])[1]
    assert not found.flags.writeable


def test_a_result_that_is_a_weight_is_no_door_to_it() -> None:
    for size in (4, 300, 5000):
        weight = torch.nn.Parameter(torch.ones(size, 4096))
        program = irkit.to_onnx(Returned(weight), (torch.ones(1),))
        program(torch.ones(1))[1].zero_()
        assert bool((program(torch.ones(1))[1] == 1).all()) and bool((weight == 1).all())


class Returned(torch.nn.Module):
    def __init__(self, weight: torch.nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, self.weight


def test_arrays_that_the_caller_lets_be_are_not_copied_and_are_watched() -> None:
    array = np.arange(90_000, dtype=np.float32).reshape(300, 300)
    value = irkit.const(array, name="w", copy=False)
    assert value.blob is not None and np.shares_memory(value.blob.array, array)
    graph = Graph((), (value,))
    frozen = irkit.freeze(graph)
    array += 1
    with pytest.raises(StaleError, match=r"the array of the constant w was written .*\n  try: make the constant again"):
        irkit.to_proto(graph)
    assert bool((irkit.evaluate(frozen, [])[0] == array - 1).all())
    assert not irkit.const(array[:2, :2], copy=False).blob.watched  # type: ignore[union-attr]


def test_blobs_of_a_few_bytes_more_or_less_than_what_is_copied() -> None:
    for extra in (-4, 0, 4):
        weight = torch.arange((COPIED + extra) // 4, dtype=torch.float32)
        graph = lower(lambda x, weight=weight: x + weight, (torch.zeros(1),))
        weight.add_(1)
        if extra > 0:
            with pytest.raises(StaleError):
                _ = graph.digest
        else:
            assert irkit.evaluate(graph, [np.zeros(1, np.float32)])[0][5] == 5


# ---------------------------------------------------------------------------------------------- containers


def test_what_a_graph_shows_of_itself_cannot_be_changed() -> None:
    x = param(tensor("f32", "n"))
    made = op.Relu(x)
    symbols = {"n": irkit.Range(1, 9)}
    graph = Graph([x], [made], symbols)
    digest = graph.digest
    with pytest.raises(AttributeError):
        graph.users.clear()  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        graph.users[x] = ()  # type: ignore[index]
    symbols.clear()
    assert graph.symbols == {"n": irkit.Range(1, 9)} and graph.users[x] == (made,)
    with pytest.raises(TypeError):
        graph.symbols["m"] = irkit.Range(1, 9)  # type: ignore[index]
    inputs, pads = [x], [1, 1]
    value = Value("Pad", inputs, (("pads", pads),), (), x.type)  # type: ignore[arg-type]
    inputs.clear()
    pads.clear()
    assert value.inputs == (x,) and value.attribute("pads") == (1, 1)
    ports = [irkit.Port("a")]
    signature = irkit.Signature(ports)
    ports.clear()
    assert signature.params == (irkit.Port("a"),) and graph.digest == digest


def test_a_message_is_the_callers_own() -> None:
    program = irkit.to_onnx(torch.nn.ReLU(), (torch.ones(2),))
    program.proto.graph.ClearField("node")
    assert len(program.proto.graph.node) == 1


# ---------------------------------------------------------------------------------------------- the law that rules keep


@attrs.define(eq=False)
class Switch:
    """A watch that a test turns."""

    changed: bool = False

    def check(self, closely: bool = True) -> None:
        if self.changed:
            raise StaleError("turned")


def with_watched_constants(results: tuple[Any, ...], switch: Switch) -> tuple[Any, ...]:
    """The results of an instance over constants that `switch` watches."""
    new: dict[Any, Any] = {None: None}
    for each in post_order(results):
        if each.blob is not None:
            array = each.blob.array
            found = Blob(each.blob.dtype, each.blob.shape, lambda array=array: array, each.blob.name, watch=switch)
            new[each] = constant(found)
        else:
            new[each] = each.with_inputs(tuple(new[v] for v in each.inputs))
    found = [new[each] for each in results]
    several = [v.type.items if isinstance(v.type, irkit.Tuple) else None for v in found]
    return tuple(
        part
        for v, items in zip(found, several, strict=True)
        for part in ([v] if items is None else [irkit.item(v, i) for i in range(len(items))])
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_constants_that_a_rule_computes_refuse_once_what_they_are_computed_of_has_changed(rule: Any) -> None:
    for seed in range(3):
        switch = Switch()
        instance = random_sample(rule, np.random.default_rng(seed))
        results = with_watched_constants(instance or (), switch)
        params = tuple(v for v in post_order(results) if v.op == "Param")
        graph = rewrite(Graph(params, results), rule)
        switch.changed = True
        for value in post_order(graph.results):
            held = value.blob
            if held is None or held.watched:
                continue
            try:
                held.load()
            except StaleError:
                pytest.fail(f"{rule.name} computes {value!r} of a constant, and does not say so: Blob(of=...)")


def test_the_errors_of_changed_contents_are_irkits() -> None:
    assert issubclass(StaleError, IrkitError) and irkit.StaleError is StaleError


class Remembers(torch.nn.Module):
    """Computes a bias once, and keeps it in a dict of its own, as timm's TinyViT does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(LARGE, LARGE))
        self.known: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if "bias" not in self.known:
            self.known["bias"] = self.weight.sin()
        return x @ self.known["bias"]


def test_a_program_that_is_checked_is_not_changed_by_that() -> None:
    """The model runs beside the program then, and what it keeps outside its buffers is put back where it was written:
    of a tensor that was not, the program would refuse the content from then on."""
    module = Remembers().eval()
    with torch.no_grad():
        module(X)
    program = irkit.to_onnx(module, (X,), dynamic_shapes=({0: "n"},))
    for _ in range(2):
        assert program.check(2)
    torch.testing.assert_close(program(X), module(X))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.complex64, torch.float8_e4m3fn, torch.bool])
def test_tensors_that_were_not_written_are_not_written_back(kind: torch.dtype) -> None:
    held = torch.tensor([0.0, -1.0, float("nan"), 3.0]).to(kind)
    turned = torch.ones(2, 3).t().to(kind)
    before = held._version, turned._version
    with tensors_kept([held, turned]):
        pass
    assert (held._version, turned._version) == before
    content = held.clone()
    with tensors_kept([held]):
        held.zero_()
    assert held.view(torch.uint8).tolist() == content.view(torch.uint8).tolist()
