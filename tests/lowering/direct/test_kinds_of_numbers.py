"""A number that data or sizes tell is an int, float or bool to the model's code, however it asks, as it is in eager."""

from __future__ import annotations

import copy
import functools
import numbers
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch

import irkit
from lowering.capture.patches import kinds_of_numbers
from tests.fuzz.kinds_of_numbers import WAYS, Drawn, faults
from tests.support.draws import drawn

Model = Callable[[torch.Tensor], torch.Tensor]
DATA = (torch.tensor([3, 1, 2]), torch.tensor([0, 7, 7]), torch.tensor([-1, 0, 1]), torch.tensor([1, 1, 1]))


@functools.singledispatch
def weight(_number: Any) -> int:
    return 1


@weight.register
def weight_of_int(_number: int) -> int:
    return 2


@weight.register
def weight_of_float(_number: float) -> int:
    return 3


def matched(number: Any) -> int:
    match number:
        case bool():
            return 1
        case int():
            return 2
        case float():
            return 3
    return 4


def converted(x: torch.Tensor, number: Any) -> torch.Tensor:
    """What code makes that takes whatever is no number for a tensor."""
    return x * number if isinstance(number, int | float) else x - 1


KINDS: dict[str, Callable[[Any], Any]] = {
    "isinstance": lambda n: isinstance(n, int) + 2 * isinstance(n, float) + 4 * isinstance(n, bool),
    "type": lambda n: 1 if type(n) is int else 2 if type(n) is float else 3 if type(n) is bool else 4,
    "a class": lambda n: 1 if n.__class__ is int else 2 if n.__class__ is float else 3,
    "a key": lambda n: {int: 1, float: 2, bool: 3}.get(type(n), 4),
    "a name": lambda n: len(type(n).__name__),
    "issubclass": lambda n: 1 if issubclass(type(n), int) else 2,
    "an abstract class": lambda n: isinstance(n, numbers.Integral) + 2 * isinstance(n, numbers.Number),
    "singledispatch": weight,
    "match": matched,
    "an attribute": lambda n: hasattr(n, "conjugate") + 2 * hasattr(n, "bit_length") + 4 * hasattr(n, "hex"),
    "numpy": lambda n: 1 if np.isscalar(n) else 2,
}
NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "an integer": lambda x: x[0].item(),
    "int": lambda x: int(x[0]),
    "a real number": lambda x: (x[0] * 1.5).item(),
    "a truth": lambda x: (x[0] > 1).item(),
    "an element": lambda x: x.tolist()[1],
    "a size": lambda x: x.shape[0],
    "half a size": lambda x: x.shape[0] / 2,
    "an answer": lambda x: x.shape[0] > 3,
}
ROWS = ({0: "n"},)


@pytest.mark.parametrize("rewrite", [False, True], ids=["plain", "rewritten"])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("asked", KINDS)
def test_the_kind_of_a_number_is_that_of_eager(asked: str, number: str, rewrite: bool) -> None:
    kind, taken = KINDS[asked], NUMBERS[number]

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + kind(taken(x))

    program = irkit.to_onnx(model, (DATA[0],), capture="direct", widen=False, rewrite=rewrite)
    for x in DATA:
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("asked", KINDS)
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_the_kind_of_a_size_that_varies_is_that_of_eager(asked: str, capture: Any) -> None:
    kind = KINDS[asked]

    def model(x: torch.Tensor) -> torch.Tensor:
        return x + kind(x.shape[0])

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    for n in (2, 3, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


def test_code_that_takes_what_is_no_number_for_a_tensor_gets_a_number() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return converted(x, x.shape[0]) + converted(x, x[0].item())

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS)
    for x in (torch.ones(1), torch.ones(4) * 3, torch.arange(9.0)):
        torch.testing.assert_close(program(x), model(x))


def test_where_int_keeps_sizes_the_kind_of_a_number_is_int_all_the_same() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        half = int(x.shape[0] / 2)
        whole, real = len("abc"), abs(-0.5)
        known = (type(half) is int) + 2 * (type(whole) is int) + 4 * (type(real) is float) + 8 * isinstance(half, int)
        return x * half + known

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS)
    for n in (0, 1, 4, 7):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


def test_a_size_is_copied_and_type_makes_classes() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        made: Any = type("Made", (), {"n": copy.deepcopy({"n": x.shape[0]})["n"]})
        return x * made.n + isinstance(made, type) + (type(made) is type)

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS)
    for n in (0, 1, 4, 7):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_what_is_decided_by_a_copy_of_a_number_is_a_condition(capture: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        held = copy.deepcopy({"n": x.shape[0]})
        return x * copy.copy(held["n"]) if held["n"] > 3 else x - 1

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    for n in (4, 9):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))
    with pytest.raises(irkit.ContractError):
        program(torch.ones(2))


def test_what_is_decided_by_a_copy_of_data_is_a_condition() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if copy.deepcopy(x[0].item()) > 2 else x - 1

    program = irkit.to_onnx(model, (DATA[0],), rewrite=False)
    torch.testing.assert_close(program(DATA[0]), model(DATA[0]))
    with pytest.raises(irkit.ContractError):
        program(DATA[1])


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_code_that_knows_symbols_finds_them(capture: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        n: Any = x.shape[0]
        plain = type(n) is int and n.__class__ is int
        return x + 1 if plain and isinstance(n, int | torch.SymInt) else x - 1

    def asked(x: torch.Tensor) -> torch.Tensor:
        note(isinstance(x.shape[0], torch.SymInt) and isinstance(x.shape[0], (str, torch.SymInt)))
        return x

    seen: SimpleQueue[bool] = SimpleQueue()  # a list holds what it held once the model was captured
    note = seen.put
    irkit.to_onnx(asked, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    assert seen.qsize() and all(seen.get() for _ in range(seen.qsize()))
    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    for n in (2, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_number_has_the_attributes_that_it_has_in_eager(capture: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        half = n / 2
        return x * n.real + n.numerator - n.denominator + n.imag + n.conjugate() + half.real + half.imag

    def bits(x: torch.Tensor) -> torch.Tensor:
        return x + x.shape[0].bit_length()

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    for n in (2, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))
    torch.testing.assert_close(irkit.to_onnx(bits, (torch.ones(4),))(torch.ones(4)), bits(torch.ones(4)))
    if capture == "torch.export":  # the example's number has that many
        with pytest.raises(irkit.CaptureError, match="4"):
            irkit.to_onnx(bits, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture)
        return
    program = irkit.to_onnx(bits, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture)
    for n in (0, 1, 4, 9, 255, 256):
        torch.testing.assert_close(program(torch.ones(n)), bits(torch.ones(n)))


def test_a_whole_float_of_sizes_makes_floats_of_integers() -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = float(x.shape[0])
        return x + n, n * x, n - x, x.double() * n, x[0].float() + n

    program = irkit.to_onnx(model, (torch.arange(4),), dynamic_shapes=ROWS, capture="direct", widen=False)
    for n in (1, 4, 9):
        torch.testing.assert_close(program(torch.arange(n)), model(torch.arange(n)))


@pytest.mark.parametrize("asked", KINDS)
@pytest.mark.parametrize("taken", [lambda x: -len(x), lambda x: max(x.shape[0], 2) // 2], ids=["less", "greatest"])
def test_rewritten_code_asks_numbers_of_sizes_for_their_kind(asked: str, taken: Any) -> None:
    kind = KINDS[asked]

    def model(x: torch.Tensor) -> torch.Tensor:
        n = taken(x)
        return x + kind(n) if isinstance(n, int) and type(n) is int else x - 1

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, rewrite=True, widen=False)
    for n in (2, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), model(torch.ones(n)))


def executed(code: str, **names: Any) -> dict[str, Any]:
    exec(code, names)
    return names


LAYER = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * (3 if type(x.shape[0]) is int and asked(x.shape[0]) else 2)
"""
ELSEWHERE = "def asked(n): return type(n) is int"


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_code_elsewhere_than_the_model_has_the_same_kinds(capture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("a_library_of_its_own")
    exec(ELSEWHERE, library.__dict__)
    monkeypatch.setitem(sys.modules, library.__name__, library)
    inner = executed(LAYER, asked=library.asked)["Model"]()
    model = torch.nn.Sequential(torch.nn.Identity(), inner)
    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    for n in (2, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), torch.ones(n) * 3)
    assert "type" not in vars(library) and "type" not in vars(sys.modules[__name__])


@pytest.mark.parametrize("place", ["torch/nn/functional.py", "torchvision/ops/boxes.py", "irkitten/model.py"])
def test_libraries_beside_torch_are_none_of_its_own(place: str) -> None:
    code = compile("def asked(n): return isinstance(n, int)", str(Path(torch.__file__).parents[1] / place), "exec")
    exec(code, found := {})
    seen: SimpleQueue[bool] = SimpleQueue()
    note = seen.put

    def model(x: torch.Tensor) -> torch.Tensor:
        note(found["asked"](x.shape[0]))
        return x

    irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture="direct", widen=False)
    assert {seen.get() for _ in range(seen.qsize())} == {not place.startswith("torch/")}


def test_code_of_torchvision_may_hash_a_size_as_that_of_a_model_may() -> None:
    code = compile("def keyed(n): return {n: 1}", str(Path(torch.__file__).parents[1] / "torchvision/x.py"), "exec")
    exec(code, found := {})
    program = irkit.to_onnx(lambda x: x * found["keyed"](x.shape[0])[4], (torch.ones(4),), capture="direct")
    torch.testing.assert_close(program(torch.ones(4)), torch.ones(4))
    with pytest.raises(irkit.CaptureError, match="works for 4 only"):
        irkit.to_onnx(
            lambda x: x * len(found["keyed"](x.shape[0])), (torch.ones(4),), dynamic_shapes=ROWS, capture="direct"
        )


def test_type_is_all_that_it_is_otherwise() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        class Named(type):
            def __call__(cls, *given: Any) -> Any:
                return type.__call__(cls, *given)

        class Held(metaclass=Named):
            def __init__(self, n: Any) -> None:
                self.n = n

        made: Any = type("Made", (), {"n": x.shape[0]})
        known: Any = (
            type(Held) is Named,
            type(int) is type,
            isinstance(Held, type),
            issubclass(Named, type),
            type(made),
        )
        told = known == (True, True, True, True, type) and type[int] == eval("type[int]", {})
        told = told and not isinstance(3, type) and not issubclass(int, type) and not isinstance(int, Named)
        named = type.__name__ == "type" and {type: 1}[type(int)] == 1 and isinstance(int, type | None)
        return x * Held(made.n).n + 2 * told + named

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture="direct", widen=False)
    for n in (2, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), torch.ones(n) * n + 3)


def test_a_capture_within_a_capture_leaves_that_around_as_it_was() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0] + (type(x.shape[0]) is int)

    def model(x: torch.Tensor) -> torch.Tensor:
        irkit.to_onnx(inner, (torch.ones(3),), dynamic_shapes=ROWS, capture="direct", widen=False)
        return inner(x) + 2 * isinstance(x.shape[0], int)

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture="direct", widen=False)
    for n in (2, 4, 9):
        torch.testing.assert_close(program(torch.ones(n)), torch.ones(n) * n + 3)
    assert unchanged()


def test_captures_in_threads_side_by_side_do_not_end_for_one_another() -> None:
    begun = threading.Barrier(3)
    found: list[Any] = []

    def run(steps: int) -> None:
        def model(x: torch.Tensor) -> torch.Tensor:
            for _ in range(steps):
                x = x + isinstance(x.shape[0], int) * 2 + (type(x.shape[0]) is int)
            return x

        begun.wait()
        program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture="direct", widen=False)
        found.append([float(program(torch.zeros(n))[0]) == 3 * steps for n in (2, 5)])

    threads = [threading.Thread(target=run, args=(steps,)) for steps in (1, 9, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[True, True]] * 3 and unchanged()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_capture_that_is_interrupted_leaves_nothing_changed(capture: Any, error: type[BaseException]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        if "type" in globals():  # while it is captured
            raise error("in the middle")
        return x

    with pytest.raises((error, irkit.CaptureError)):
        irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=ROWS, capture=capture, widen=False)
    assert unchanged()


def unchanged() -> bool:
    """Whether symbols have their own class, and Python's `type` is everywhere."""
    kinds = (torch.SymInt, torch.SymFloat, torch.SymBool)
    left = {"__class__", "__copy__", "__deepcopy__", "real", "imag"}
    of_numbers = all(kind(None).__class__ is kind and not left & set(vars(kind)) for kind in kinds)
    return of_numbers and "type" not in globals()


def test_behind_a_capture_symbols_have_their_own_class() -> None:
    irkit.to_onnx(lambda x: x * x.shape[0], (torch.ones(4),), dynamic_shapes=ROWS)
    assert unchanged()


FAILED = (5, 28, 38, 53, 58, 135, 188, 215, 219)
"""Seeds that once found a fault."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", drawn("kinds of numbers", range(3000), 6, FAILED))
@pytest.mark.parametrize("way", WAYS)
def test_models_that_ask_for_kinds_answer_as_eager_or_refuse(way: str, seed: int) -> None:
    assert list(faults(Drawn(seed), way)) == []


def by_kind(x: torch.Tensor) -> torch.Tensor:
    """What asks for the class of a tensor, as code does that takes only plain ones."""
    return x * 2 if type(x) is torch.Tensor and type(x[0] + 1).__name__ == "Tensor" else x


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_tensor_is_of_the_class_that_it_has_in_eager(capture: Any, rewrite: bool) -> None:
    program = irkit.to_onnx(by_kind, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture, rewrite=rewrite)
    assert program(x := torch.randn(2, 3)).equal(by_kind(x))


def test_code_that_asks_for_types_is_found_wherever_it_stands() -> None:
    source = """
import functools, math

class Layer:
    class Inner:
        @staticmethod
        @functools.wraps(math.sqrt)
        def called(n):
            return [type(each) for each in n]

def plain(n):
    return n.kind
"""
    module = types.ModuleType("kinds_of_numbers_here")
    exec(source, module.__dict__)
    sys.modules[module.__name__] = module
    try:
        space = module.__dict__
        assert kinds_of_numbers.may_ask(module.__name__, space)
        del space["Layer"]
        assert not kinds_of_numbers.may_ask(module.__name__, space)
        exec("def another(n):\n    return type(n)", space)
        space["more"] = 0
        assert kinds_of_numbers.may_ask(module.__name__, space)
        assert any(each is space for each in kinds_of_numbers.spaces_of(sys.modules))
        sys.modules[module.__name__] = again = types.ModuleType(module.__name__)  # in its place, as others are loaded
        exec(source, again.__dict__)
        spaces = kinds_of_numbers.spaces_of(sys.modules)
        assert [each for each in spaces if each is space or each is again.__dict__] == [again.__dict__]
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize("name", ["rich", "urllib3", "yaml"])
def test_a_module_of_the_user_s_may_be_called_as_a_library_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(name)
    exec("def is_whole(n):\n    return type(n) is int", module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    kinds_of_numbers.modules_asking.cache_clear()  # as the last that was loaded is another then
    assert any(each is module.__dict__ for each in kinds_of_numbers.spaces_of(sys.modules))
    kinds_of_numbers.modules_asking.cache_clear()


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_float_that_is_whole_is_given_back_as_a_float(capture: str) -> None:
    def model(x: torch.Tensor) -> Any:
        return x, x.shape[0] * 4 / 2, x.shape[0] / 1

    program = irkit.to_onnx(model, (torch.randn(4, 4),), dynamic_shapes=({0: "n"},), capture=capture)
    for n in (4, 5, 2):
        _, *numbers = program(torch.randn(n, 4))
        assert numbers == [2.0 * n, float(n)] and {type(each) for each in numbers} == {float}
