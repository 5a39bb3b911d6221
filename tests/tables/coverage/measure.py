"""One cell of the table: an OpInfo, an element type, fixed or dynamic sizes -> passed, or the first reason why not."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from unittest import mock

import attrs
import numpy as np
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from irkit.checking.comparison import compare
from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError, IrkitError
from lowering.errors import CaptureError, LoweringError, MissingConverters
from lowering.program.check import assignments, resized, run
from lowering.program.program import Program
from lowering.records.options import AUTO, DIRECT, TORCH_EXPORT
from tests.lowering.aten.oracle import OPS, Case, array, rules_for, tensors_of
from tests.lowering.aten.test_opinfo import function_of
from tests.tables.coverage.verdicts import Sampled, sampled, verdict

DTYPES: Mapping[str, torch.dtype] = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
        torch.complex64,
    )
}
MODES = ("static", "dynamic")
WAYS = (DIRECT, TORCH_EXPORT)
"""The ways of capture that have a column each."""

NOT_DETERMINED: Mapping[str, str] = {
    **dict.fromkeys(
        "empty empty_like empty_permuted empty_strided new_empty new_empty_strided".split(),
        "holds what the memory held",
    ),
    **dict.fromkeys(
        "bernoulli cauchy exponential geometric log_normal multinomial normal pca_lowrank rand rand_like randint "
        "randint_like randn randn_like svd_lowrank uniform nn.functional.alpha_dropout nn.functional.dropout "
        "nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout "
        "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d".split(),
        "draws random numbers",
    ),
}
"""Operators whose results nothing can be compared with, and why; tests/lowering/aten/creation/test_random.py holds them
to laws.

Of other operators, the samples are left out for which eager itself gives two results for two seeds.
"""

UP_TO_PHASE = frozenset(("svd", "linalg.svd", "linalg.eig", "linalg.eigh"))
"""Operators that determine vectors up to a sign or a phase: what torch's own tests make of a sample's result is
compared, absolute values or products of them."""

NO_TENSOR = "returns nothing that hangs on the numbers in tensors, and so nothing for a model to compute"

MEANT: Mapping[str, Callable[..., bool]] = {
    "_segment_reduce.lengths": lambda data, lengths: bool((lengths >= 0).all()) and int(lengths.sum()) == len(data),
    "take_along_dim": lambda x, *places: all(bool((p < min([1, *x.shape])).all()) for p in places),
    "_segment_reduce.offsets": lambda data, ends: bool((ends.diff() >= 0).all()) and [*ends[[0, -1]]] == [0, len(data)],
}
"""Of other arguments of an operator that torch does not check: whether its kernel stays within their memory."""

OF_DATA = "ContractError: the data of this call breaks"
"""A condition on data that random numbers need not meet."""

OTHERS = 20
"""Further samples that are looked through for one of the same ranks and other sizes."""


@attrs.frozen
class Key:
    """A cell: the operator as `oracle.OPS` calls it, the element type without `torch.`, static or dynamic, and how it
    is captured."""

    op: str
    dtype: str
    mode: str
    capture: str = AUTO


@attrs.frozen
class Found:
    """What became of a cell.

    `outcome` is pass, fail, "not captured" (torch.export refuses each sample), random (nothing is determined), or
    "no samples"; `reason` a short code and `detail` one line for the first failure. `samples` counts those compared.
    A pass has a reason where a sample differs from torch, and `tests.tables.coverage.verdicts` shows that it is right.
    """

    outcome: str
    reason: str = ""
    detail: str = ""
    samples: int = 0
    seconds: float = 0.0


class Failed(Exception):
    """A sample failed: (reason, detail)."""


class NotCaptured(Exception):
    """torch itself cannot capture the sample; the reason is its argument."""


class Undetermined(Exception):
    """Two runs of eager differ, or eager refuses the sample."""


def cells() -> Iterator[tuple[str, str, str]]:
    """(name, element type, mode) of each cell: each operator with the element types that it has on the CPU."""
    for name, info in OPS.items():
        for dtype, kind in DTYPES.items():
            if kind in info.dtypes:
                for mode in MODES:
                    yield name, dtype, mode


def measured(key: Key, samples: int | None, first: int = 0) -> Found:
    """The outcome over `samples` samples from number `first` on (all where None); the first failure ends it."""
    if OPS[key.op].name in NOT_DETERMINED:
        return Found("random", "random", NOT_DETERMINED[OPS[key.op].name])
    start, compared, left_out, shown = time.perf_counter(), 0, Found("no samples"), ("", "")
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # torch makes all samples of an operator at once: asked again for each, they cost most of the time.
        others = tuple(islice(cases_of(key), OTHERS)) if key.mode == "dynamic" else ()
        for case in islice(cases_of(key), first, None if samples is None else first + samples):
            try:
                found = check(case, key, others)
                compared += 1
                shown = shown if shown[0] else (found[0], f"{clean(found[1])} [{clean(case.words)[:120]}]")
            except Failed as failed:
                reason, detail = failed.args
                return Found("fail", reason, f"{clean(detail)} [{clean(case.words)[:120]}]", compared, since(start))
            except NotCaptured as refused:
                left_out = Found("not captured", "torch", clean(str(refused)))
            except Undetermined as undetermined:
                if left_out.outcome != "not captured":
                    nothing = str(undetermined) == NO_TENSOR
                    left_out = Found("random", "random", NO_TENSOR if nothing else "eager gives two results")
    reason, detail = shown if shown[0] else ("", "")
    return Found("pass", reason, detail, compared, since(start)) if compared else left_out


def since(start: float) -> float:
    """Seconds since `start`, to the hundredth."""
    return round(time.perf_counter() - start, 2)


def cases_of(key: Key) -> Iterator[Case]:
    """The samples as modules of tensors."""
    info, dtype = OPS[key.op], DTYPES[key.dtype]
    function = function_of(info, dtype)
    # A generator that is left open is ended by the collector, at times under a trace, which its no_grad then disturbs.
    for sample in list(info.sample_inputs("cpu", dtype, requires_grad=False)):
        plain = sample.transform(lambda x: x.detach() if isinstance(x, torch.Tensor) else x)
        compared = determined_part(function, sample) if info.name in UP_TO_PHASE else function
        yield attrs.evolve(sampled(Called(info.name, compared), plain), meant=MEANT.get(key.op))


def determined_part(function: Callable[..., Any], sample: Any) -> Callable[..., Any]:
    """The function, and then what its sample asks for of the results."""
    return lambda *args, **kwargs: sample.output_process_fn_grad(function(*args, **kwargs))


@attrs.frozen
class Called:
    """What `op_case` asks of an OpInfo: a name and a function."""

    name: str
    op: Callable[..., Any]


def check(case: Case, key: Key, others: Sequence[Case]) -> tuple[str, str]:
    """(why, difference) where the exported sample differs from eager and is shown to be right, else two empty texts.

    Raises Failed where it differs, NotCaptured or Undetermined where nothing can be compared.
    """
    determined(case)
    program = exported(case, key.mode == "dynamic", key.capture)
    shown = compared_on(program, case, case.args, "")
    for args in other_sizes(case, others, program) if key.mode == "dynamic" else ():
        found = compared_on(program, case, args, f"at {[list(a.shape) for a in args]}: ")
        shown = shown if shown[0] else found
    return shown


def compared_on(program: Program, case: Case, args: tuple[torch.Tensor, ...], where: str) -> tuple[str, str]:
    """As `check`, on given arguments."""
    problem = run(program, clones(args), {}).problem
    if not problem or (where and problem.startswith(OF_DATA)):
        return "", ""
    why = ""
    if reason_of(problem) == "value":
        why = verdict(case, args, case.model(*clones(args)), program(*clones(args)))
    if not why:
        raise Failed(reason_of(problem), f"{where}{problem}")
    return why, f"{where}{problem}"


def determined(case: Case) -> None:
    """Raises Undetermined where eager refuses the sample, returns neither a tensor nor a number, or another result for
    another seed."""
    found: list[list[Any]] = []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        try:
            with mock.patch.object(torch, "manual_seed", lambda seed: None):  # OpInfo seeds some operators itself
                result = case.model(*clones(case.args))
                numbers = [
                    np.asarray(n) for n in pytree.tree_leaves(result) if isinstance(n, bool | int | float | complex)
                ]
                found.append([*(array(t) for t in tensors_of(result)), *numbers])
        except Exception as error:
            raise Undetermined(str(error)) from error
    if not found[0]:
        raise Undetermined(NO_TENSOR)
    if compare(found[0], found[1]) is not None or compare(found[0], found[2]) is not None:
        raise Undetermined("random")


def exported(case: Case, dynamic: bool, capture: str = AUTO) -> Program:
    """The sample as an ONNX program with a session."""
    model, args = case.model.eval(), case.args
    shapes, rules = dynamic_axes(case) if dynamic else None, rules_for(args)
    return made(lambda: to_onnx(model, clones(args), dynamic_shapes=shapes, rules=rules, capture=capture))


def dynamic_axes(case: Case) -> Any:
    """Dynamic shapes with every dimension that may vary; torch.export makes 0 and 1 static whatever one asks for."""
    axes = [[i for i, size in enumerate(a.shape) if size > 1] for a in case.args]
    return {"tensors": tuple(dict.fromkeys(found, Dim.AUTO) for found in axes)} if axes else None


def made(export: Callable[[], Program]) -> Program:
    """What `export` gives, with a session. Raises Failed with the stage that went wrong, or NotCaptured."""
    try:
        program = export()
    except CaptureError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, IrkitError):
            raise Failed("capture", error.what) from error
        raise NotCaptured(f"{type(cause).__name__}: {cause}") from error
    except MissingConverters as error:
        names = ", ".join(name for name, _ in error.missing)
        raise Failed("converter", f"no converter for {names}") from error
    except LoweringError as error:
        if error.what.startswith("the program returns no tensor"):  # but sizes that are what they are
            raise Undetermined(NO_TENSOR) from error
        raise Failed("refused", error.what) from error
    except IrkitError as error:
        raise Failed("legalize", f"{type(error).__name__}: {error.what}") from error
    except Exception as error:
        raise Failed("internal", f"{type(error).__name__}: {error}") from error
    try:
        _ = program.session
    except IrkitError as error:
        raise Failed("serialize", f"{type(error).__name__}: {error}") from error
    except Exception as error:
        raise Failed("ORT load", f"{type(error).__name__}: {error}") from error
    return program


def other_sizes(case: Case, others: Sequence[Case], program: Program) -> Iterator[tuple[torch.Tensor, ...]]:
    """Arguments of other sizes that the program's contract allows and torch takes: those of one of `others` that has
    the same ranks, or random ones."""
    for other in others:
        if kinds(other) == kinds(case) and shapes_of(other) != shapes_of(case):
            try:
                program.feeds(other.args, {})
                determined(attrs.evolve(case, args=other.args))
            except (ContractError, Undetermined):
                continue
            yield other.args
            return
    for sizes in assignments(program, 1, 0):
        args, _ = resized(program, sizes, 0)
        if isinstance(case, Sampled) and case.meant is not None and not case.meant(*args):
            continue
        try:
            determined(attrs.evolve(case, args=tuple(args)))
        except Undetermined:
            continue
        yield tuple(args)


def kinds(case: Case) -> list[tuple[torch.dtype, int]]:
    """The element types and ranks of the tensors."""
    return [(a.dtype, a.ndim) for a in case.args]


def shapes_of(case: Case) -> list[torch.Size]:
    """The shapes of the tensors."""
    return [a.shape for a in case.args]


def clones(args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Copies that a run may write to, with the strides of the originals."""
    return tuple(a.detach().clone() for a in args)


def reason_of(problem: str) -> str:
    """The short code of a problem that a comparison reports."""
    if "the structure differs" in problem:
        return "structure"
    if re.search(r"expected \w+ elements, got", problem):
        return "dtype"
    if "expected the shape" in problem:
        return "shape"
    if problem.startswith("ContractError"):
        return "contract"
    if problem.startswith(("output", "state")):
        return "value"
    return "ORT run"


def clean(text: str) -> str:
    """One line without the paths of a machine, of 300 characters at most."""
    line = " ".join(text.split())
    line = re.sub(r"/\S*/(\w[\w.]*)", r"\1", line)
    return re.sub(r"0x[0-9a-f]{6,}", "0x", line)[:300]
