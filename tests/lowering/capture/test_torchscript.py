"""TorchScript, of torch.jit.script, trace and load: as models, as parts of models, and as functions."""

from __future__ import annotations

import collections
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.jit.frontend import NotSupportedError
from torch.testing._internal import jit_metaprogramming_utils as torchs_scripts
from torch.testing._internal.common_modules import module_db

import irkit
from lowering import lower
from lowering.capture.torchscript.modules import Scripted, function_of
from tests.support.draws import drawn

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # TorchScript is to go
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
WAYS = ["direct", "torch.export"]


class Attending(torch.nn.Module):
    """Sizes, a default argument, batch norm, and a method."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.norm(self.linear(x)))
        rows, columns = hidden.shape
        return torch.softmax(hidden.reshape(rows, 2, columns // 2), dim=-1).flatten(1) * scale

    @torch.jit.export
    def halved(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) / 2


class Holding(torch.nn.Module):
    """A model with another in it."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x) * 2


def attending() -> Attending:
    torch.manual_seed(0)
    return Attending().eval()


def made(kind: str, tmp_path: Path) -> Any:
    """The model as TorchScript."""
    if kind == "traced":
        return torch.jit.trace(attending(), torch.randn(2, 3))
    script = torch.jit.script(attending())
    if kind == "scripted":
        return script
    torch.jit.save(script, tmp_path / "model.pt")
    return torch.jit.load(tmp_path / "model.pt")


@pytest.mark.parametrize("capture", WAYS)
@pytest.mark.parametrize("kind", ["scripted", "traced", "loaded"])
def test_a_part_and_a_whole_model_are_right_at_every_size(kind: str, capture: Any, tmp_path: Path) -> None:
    part = made(kind, tmp_path)
    for model, expected in ((part, attending()), (Holding(part), Holding(attending()))):
        program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)
        for rows in (4, 1, 0, 7):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(program(x), expected(x), rtol=1e-5, atol=1e-6)
        assert program.check(3)


def test_weights_keep_their_names_and_the_module_its_parts(tmp_path: Path) -> None:
    model = Holding(made("loaded", tmp_path))
    part, before = model.part, {name: each.clone() for name, each in model.state_dict().items()}
    names = {value.blob.name for value in lower(model, (torch.randn(4, 3),)).order if value.blob and value.blob.name}
    assert {"part.linear.weight", "part.linear.bias"} <= names
    assert model.part is part and isinstance(part, torch.jit.ScriptModule)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


class Pair:
    """A class of TorchScript."""

    def __init__(self, count: int, x: torch.Tensor) -> None:
        self.count = count
        self.x = x

    def both(self, y: torch.Tensor) -> torch.Tensor:
        return y * self.count + self.x


class Named(typing.NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def with_classes(x: torch.Tensor):
    with torch.no_grad():
        pair = Pair(x.size(0), x * 2)
    found: typing.Dict[str, torch.Tensor] = {}  # noqa: UP006
    for name in "a,b".split(","):
        if name not in found:
            found[name] = pair.both(x)
    return Named(found["a"], torch.stack(list(found.values())) + int(x.size(0) / 2)), x[1:, :-1], len(found)


def with_lists(x: torch.Tensor):
    largest, places = torch.max(x, dim=1)
    sums: typing.List[torch.Tensor] = []  # noqa: UP006
    i = 0
    while i < x.dim():
        sums.append(x.sum(i))
        i += 1
    shape = torch.tensor([x.size(0), x.size(1)])
    return {"largest": largest, "places": places, "sum": sums[0], "shape": shape}, x.to(torch.float64), x.shape


def with_sizes(x: torch.Tensor) -> torch.Tensor:
    if x.size(0) > 5:
        raise ValueError("too long")
    y = x.view(x.size(0), -1) / max(x.size(0), 1)
    for _ in range(x.size(1)):
        y = y + min(x.size(0), 3)
    halves: typing.List[float] = [round(2.5) / 4, 2 ** x.size(1) / 3, x.size(0) / 4, -7 % 3 / 1]  # noqa: UP006
    return y + sum(halves) / 2 + x.size(0) // 2 * 2**-1 - (-7 // 2) % x.size(1)


def with_data(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if bool(x.sum() > 0) else x - 1


@pytest.mark.parametrize("capture", WAYS)
@pytest.mark.parametrize("function", [with_classes, with_lists, with_sizes])
def test_functions_of_torchscript_are_right_at_every_size_that_they_take(function: Any, capture: Any) -> None:
    script = torch.jit.script(function)
    program = irkit.to_onnx(script, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    answered = 0
    for rows in (4, 1, 2, 5, 7):
        x = torch.randn(rows, 3)
        try:
            found = program(x)
        except irkit.ContractError:
            continue
        expected = script(x)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        if isinstance(expected, tuple) and hasattr(expected[0], "_fields"):
            assert found[0]._fields == expected[0]._fields
        answered += 1
    assert answered >= 3


def test_a_branch_on_data_is_a_condition() -> None:
    program = irkit.to_onnx(torch.jit.script(with_data), (torch.ones(3),), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(torch.ones(5)), torch.full((5,), 2.0))
    with pytest.raises(irkit.ContractError):
        program(-torch.ones(5))


def with_choices(x: torch.Tensor) -> typing.Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
    if bool(x.sum() > 0):
        y = x + x.size(0)
        z = x
    else:
        y = x - 1
        z = torch.relu(x) if bool(x.min() < -1) else x * 3
    return y, z


def test_choices_on_data_are_computed_where_rewriting_is_asked_for() -> None:
    script = torch.jit.script(with_choices)
    program = irkit.to_onnx(script, (torch.ones(3),), dynamic_shapes=({0: "n"},), rewrite=True)
    assert program.report.capture == "traced directly"
    assert [text for text, _ in program.report.guards] == ["n >= 1"]  # of nothing there is no least
    for x in (torch.ones(4), -torch.ones(3) / 2, -2 * torch.ones(1), torch.randn(7)):
        torch.testing.assert_close(program(x), script(x), rtol=1e-6, atol=1e-6)


def with_errors(x: torch.Tensor) -> torch.Tensor:
    if bool(x.max() > 3):
        raise ValueError("large")
    return x * 2


def test_a_choice_that_raises_stays_a_condition_with_rewriting() -> None:
    script = torch.jit.script(with_errors)
    program = irkit.to_onnx(script, (torch.ones(3),), dynamic_shapes=({0: "n"},), rewrite=True)
    torch.testing.assert_close(program(x := torch.zeros(5)), script(x))
    with pytest.raises(irkit.ContractError):
        program(torch.full((2,), 9.0))


@pytest.mark.parametrize("capture", WAYS)
def test_a_method_of_torchscript_is_a_model(capture: Any) -> None:
    program = irkit.to_onnx(
        torch.jit.script(attending()).halved, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture
    )
    x = torch.randn(2, 3)
    torch.testing.assert_close(program(x), attending().halved(x), rtol=1e-5, atol=1e-6)


TRACED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "folded": lambda x: x.reshape(x.shape[0] * 3, -1) * x.shape[0] // 2,
    "half": lambda x: x[: int(x.shape[0] / 2)] * 2,
    "integers times a half": lambda x: torch.arange(6) * (x.shape[0] / 2),
    "resized": lambda x: torch.nn.functional.interpolate(x[None], scale_factor=1.5, mode="nearest"),
    "zeros": lambda x: torch.zeros(x.shape[0], x.shape[0] + 1) + x.shape[0] ** 0.5,
    "from the end": lambda x: x[-x.shape[0] + 1 : x.shape[0] % 4],
}


@pytest.mark.parametrize("name", TRACED)
def test_sizes_that_a_trace_computes_by_tensors_vary(name: str) -> None:
    traced: Any = torch.jit.trace(TRACED[name], torch.randn(6, 3), check_trace=False)
    program = irkit.to_onnx(traced, (torch.randn(6, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for rows in (6, 1, 2, 5, 9):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), traced(x), rtol=1e-6, atol=1e-6)


def five_times(module: Any, args: typing.Tuple[torch.Tensor], made: torch.Tensor) -> torch.Tensor:  # noqa: UP006
    return made * 5


def shifted(module: Any, args: typing.Tuple[torch.Tensor]) -> typing.Tuple[torch.Tensor]:  # noqa: UP006
    return (args[0] + 3,)


class Simple(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    @torch.jit.export
    def halved(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) / 2


def hooked() -> Simple:
    model = Simple()
    model.register_forward_hook(five_times)
    model.register_forward_pre_hook(shifted)
    return model


@pytest.mark.parametrize("capture", WAYS)
def test_hooks_that_were_scripted_run(capture: Any, tmp_path: Path) -> None:
    script = torch.jit.script(hooked())
    torch.jit.save(script, tmp_path / "hooked.pt")
    for model in (script, torch.jit.load(tmp_path / "hooked.pt"), Holding(script), torch.jit.script(Holding(hooked()))):
        program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)
        x = torch.randn(2, 3)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
    plain = irkit.to_onnx(script.halved, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    torch.testing.assert_close(plain(x), script.halved(x), rtol=1e-5, atol=1e-6)


def test_frozen_modules_are_taken() -> None:
    frozen = torch.jit.freeze(torch.jit.script(attending()))
    program = irkit.to_onnx(frozen, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
    x = torch.randn(2, 3)
    torch.testing.assert_close(program(x), frozen(x), rtol=1e-5, atol=1e-6)


def forked(x: torch.Tensor) -> torch.Tensor:
    return torch.jit.wait(torch.jit.fork(torch.relu, x))


def test_what_is_not_met_is_named_with_its_line() -> None:
    with pytest.raises(irkit.CaptureError, match="TorchScript has the operator prim::fork, which is not met") as told:
        irkit.to_onnx(torch.jit.script(forked), (torch.ones(3),))
    assert "torch.jit.fork(torch.relu, x)" in str(told.value) and "try: " in str(told.value)


def test_modules_in_an_ordered_dict_are_those_of_a_model() -> None:
    model = Holding(attending())  # as torch.load gives models of older versions
    model.part._modules = collections.OrderedDict(model.part._modules)
    program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(x := torch.randn(2, 3)), model(x), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------------------------------------------------------
# Against torch's own interpreter
# ---------------------------------------------------------------------------------------------------------------------


def agree(ours: Callable[..., Any], theirs: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Raises where the two do not give the same to the last bit, or only one of them raises."""
    torch.manual_seed(0)
    try:
        expected = theirs(*args, **kwargs)
    except Exception:
        with pytest.raises(Exception):  # noqa: B017  (torch's classes of errors are many)
            ours(*args, **kwargs)
        return
    torch.manual_seed(0)
    torch.testing.assert_close(ours(*args, **kwargs), expected, rtol=0, atol=0, equal_nan=True)


FUNCTIONS = {f"{i} {each[0]}": each for i, each in enumerate(torchs_scripts.get_nn_functional_tests())}


@pytest.mark.parametrize("name", drawn("functions of TorchScript", list(FUNCTIONS), 30, ["0 conv1d"], str))
def test_torchs_functions_give_what_torchs_interpreter_gives(name: str) -> None:
    script, args = torchs_scripts.get_nn_functional_compiled_fn_and_inputs(*FUNCTIONS[name])
    agree(function_of(script), script, args, {})


def scripts_of(info: Any) -> list[tuple[Any, Any]]:
    """The first instances of a class of torch's database of modules that TorchScript takes, each with its arguments."""
    found = []
    for each in info.module_inputs_func(info, "cpu", torch.float32, False, False)[:2]:
        model = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs).eval()
        try:
            found.append((torch.jit.script(model), each.forward_input))
        except (RuntimeError, OSError, NotSupportedError):  # not every module of torch is one of TorchScript
            continue
    return found


MODULES = {info.name: info for info in module_db}
PINNED = ["nn.LSTM", "nn.TransformerEncoderLayer", "nn.MultiheadAttention", "nn.BatchNorm2d"]


@pytest.mark.parametrize("name", drawn("modules of TorchScript", list(MODULES), 20, PINNED, str))
def test_torchs_modules_give_what_torchs_interpreter_gives(name: str) -> None:
    for script, given in scripts_of(MODULES[name]):
        agree(Scripted(script), script, given.args, given.kwargs)
