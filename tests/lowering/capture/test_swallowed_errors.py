"""Errors that a model catches and that eager does not raise: an export by the other way would be for no size."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import importlib
import io
import json
import math
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.records.torch_internals import to_dlpack

UNUSED = "rows that are not there"
"""torch.export drops a lookup that nothing uses."""
ASKS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "json": lambda n, x: json.dumps(n),
    "json of a list": lambda n, x: json.dumps([n]),
    "pickle": lambda n, x: pickle.dumps(n),
    "Decimal": lambda n, x: Decimal(n),
    "a sum with a Decimal": lambda n, x: Decimal(1) + n,
    "a comparison with a Decimal": lambda n, x: Decimal(1) < n,
    "timedelta": lambda n, x: datetime.timedelta(days=n),
    "a product with a timedelta": lambda n, x: datetime.timedelta(1) * n,
    "deque": lambda n, x: deque([1, 2], maxlen=n),
    "ldexp": lambda n, x: math.ldexp(1.0, n),
    "a generator's seed": lambda n, x: torch.Generator().manual_seed(n),
    "a buffer": lambda n, x: memoryview(x.numpy().data),
    "where elements lie": lambda n, x: x.untyped_storage().data_ptr(),
    "elements of a storage": lambda n, x: x.storage()[0],
    "DLPack": lambda n, x: to_dlpack(x),
    "a Decimal of data": lambda n, x: Decimal(x.sum().item()),
    "a file of NumPy's": lambda n, x: np.save(io.BytesIO(), x.numpy()),
    "a pickled tensor": lambda n, x: pickle.dumps(x),
    UNUSED: lambda n, x: torch.nn.functional.embedding_bag(torch.tensor([[2]]), x),
}


def by_except(ask: Callable[[], Any]) -> int:
    try:
        ask()
    except Exception:
        return 3
    return 2


def by_suppress(ask: Callable[[], Any]) -> int:
    with contextlib.suppress(Exception):
        ask()
        return 2
    return 3


def by_return(ask: Callable[[], Any]) -> int:
    factor = 3
    try:
        ask()
        factor = 2
    finally:
        return factor  # noqa: B012 - the error is gone


WAYS = {"except": by_except, "suppress": by_suppress, "a return": by_return}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("capture", "ask"),
    [(way, ask) for way in ("direct", "torch.export") for ask in ASKS if way == "direct" or ask != UNUSED],
)
def test_what_only_a_capture_raises_is_no_way_of_a_model(capture: Any, ask: str) -> None:
    for way in WAYS.values() if capture == "direct" else (by_except,):

        def model(x: torch.Tensor, way: Any = way) -> torch.Tensor:
            return x * way(lambda: ASKS[ask](x.shape[0], x))

        try:
            program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture=capture)
        except IrkitError:
            continue
        for size in (3, 5, 2, 1):
            x = torch.rand(size, 4)
            try:
                found = program(x)
            except IrkitError:
                continue
            torch.testing.assert_close(found, model(x))


def test_errors_of_the_models_own_are_its_business() -> None:
    known = {"storage": 1}

    def model(x: torch.Tensor) -> torch.Tensor:
        try:
            factor = known["SymInt storage"]
        except KeyError:
            factor = 5
        try:
            int("three")
        except ValueError:
            factor += 1
        return x * factor

    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    torch.testing.assert_close(program(torch.ones(7, 4)), torch.full((7, 4), 6.0))


def test_who_traced_before_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        heard.append(frame.f_code.co_name)
        return None

    def own_step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def catching(x: torch.Tensor) -> torch.Tensor:
        try:
            return own_step(x)
        except ValueError:
            return x

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with monkeypatch.context() as patched:
        patched.setattr(sys, "settrace", lambda _: heard.append("settrace"))
        irkit.to_onnx(plain, (torch.rand(3),), dynamic_shapes=({0: "n"},), capture="direct")
    assert not heard  # nobody listens where nothing is caught
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        irkit.to_onnx(catching, (torch.rand(3),), dynamic_shapes=({0: "n"},), capture="direct")
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert "own_step" in heard


OF_NO_FILE: dict[str, Any] = {"json": json}
exec("def told(n):\n try:\n  json.dumps(n)\n except TypeError:\n  return 3\n return 2\n", OF_NO_FILE)


def of_no_file(n: Any) -> int:
    return OF_NO_FILE["told"](n)


def at_once(n: Any) -> int:
    found = {"n": n, "json": json}
    exec("try:\n json.dumps(n)\n told = 2\nexcept TypeError:\n told = 3", found)
    return found["told"]


def once_more(n: Any) -> int:
    caught = 2
    for each in (object(), n):
        try:
            json.dumps(each)
        except TypeError:
            caught += 1
    return caught


def in_a_thread(n: Any) -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(by_except(lambda: json.dumps(n))))
    thread.start()
    thread.join()
    return found[0]


def in_a_pool(n: Any) -> int:
    pool = ThreadPoolExecutor(1)
    told = pool.submit(json.dumps, n).exception()
    pool.shutdown()
    return 2 if told is None else 3


def in_a_task(n: Any) -> int:
    async def ask() -> str:
        return json.dumps(n)

    async def gather() -> list[Any]:
        return list(await asyncio.gather(ask(), return_exceptions=True))

    return 3 if isinstance(asyncio.run(gather())[0], Exception) else 2


KEPT = {each.__name__: each for each in (of_no_file, at_once, once_more, in_a_thread, in_a_pool, in_a_task)}


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_an_error_is_heard_of_wherever_it_is_kept(capture: Any, kept: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * KEPT[kept](x.shape[0])

    with pytest.raises(IrkitError, match="caught an error that eager does not raise: TypeError"):
        irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture=capture)


def test_threads_of_a_model_that_catch_nothing_wrong_are_its_business() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        with ThreadPoolExecutor(1) as pool:
            return x * pool.submit(by_except, lambda: int("three")).result()

    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    torch.testing.assert_close(program(torch.ones(7, 4)), torch.full((7, 4), 3.0))


COMPANYS = """
import json
import torch

COUNT = {"n": 0}

class Catches(torch.nn.Module):
    def forward(self, x):
        try:
            json.dumps(x.shape[0])
        except TypeError:
            return x * 3
        return x * 2

class Counts(torch.nn.Module):
    def forward(self, x):
        COUNT["n"] += 1
        return x * COUNT["n"]
"""


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_an_installed_package_of_models_is_its_authors(
    capture: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "models_of_a_company.py").write_text(COMPANYS)
    monkeypatch.syspath_prepend(folder)
    models = importlib.import_module("models_of_a_company")
    export = functools.partial(irkit.to_onnx, args=(torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture=capture)
    with pytest.raises(IrkitError, match="caught an error that eager does not raise"):
        export(models.Catches())
    program = export(models.Counts())
    assert any("sets COUNT" in note for note in program.report.notes)
    assert models.COUNT == {"n": 0}


def test_a_tensor_is_of_the_class_that_it_has_in_eager() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        plain = x.__class__ is torch.Tensor and x[1:].__class__ is torch.Tensor
        return x * (2 if plain else 3)

    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (3, 5, 1):
        x = torch.rand(size, 4)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "asks", [lambda x: x[1:]._is_view(), lambda x: x[1:]._base is x, lambda x: x[1:].storage_offset() == 4]
)
def test_what_traced_tensors_do_not_tell_is_refused(asks: Callable[[Any], bool]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if asks(x) else 3)

    with pytest.raises(IrkitError, match="the model asks"):
        irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
