"""Operators of torch's database with gradients, by `torch.compile(backend="irkit")`, against eager: `make gradients`.

    python -m tests.tables.gradients
    python -m tests.tables.gradients linalg.inv masked.softmax --samples 5

Prints each operator that fails, then how many agree: float32, the first samples of each operator.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from lowering.dynamo.backend import irkit_backend

RTOL, ATOL = 1e-3, 1e-4
"""Gradients of sums of squares are sums of many products in float32."""

OPTIONS: dict[str, Any] = {"store": None, "fallback": False}

INEXACT = frozenset(("matrix_exp",))
"""Of which eager's own gradient in float32 is off by 3e-2 of that in float64, and irkit's by 1e-7."""


def operators(names: Sequence[str] = ()) -> list[Any]:
    """The operators of torch's database that have gradients in float32."""
    known = [o for o in op_db if o.supports_autograd and torch.float32 in o.supported_backward_dtypes("cpu")]
    return [o for o in known if (o.name in names if names else o.name not in INEXACT)]


def results(function: Callable[..., Any], leaves: Sequence[Any]) -> list[Any]:
    """The results of a function, and the gradients of the sum of their squares."""
    torch.manual_seed(0)
    given = [
        leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]
    found = pytree.tree_leaves(function(*given))
    outputs = [each for each in found if isinstance(each, torch.Tensor) and each.requires_grad]
    inputs = [leaf for leaf in given if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    plain = [each.detach() if isinstance(each, torch.Tensor) else each for each in found]
    if not outputs:
        return plain
    sums = [(each.abs() if each.is_complex() else each).square().sum() for each in outputs]
    return [*plain, *torch.autograd.grad(sums, inputs, allow_unused=True)]


def outcome(operator: Any, samples: int) -> str:
    """ "agrees", "eager refuses", or what is wrong with an operator."""
    said = "eager refuses"
    for sample in list(operator.sample_inputs("cpu", torch.float32, requires_grad=True))[:samples]:
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))

        def function(*given: Any, spec: Any = spec, after: Any = sample.output_process_fn_grad) -> Any:
            args, kwargs = pytree.tree_unflatten(given, spec)
            found = operator(*args, **kwargs)
            return found if after is None else after(found)

        try:
            expected = results(function, leaves)
        except Exception:
            continue
        torch.compiler.reset()
        compiled = torch.compile(function, backend=irkit_backend, options=OPTIONS)
        try:
            found = results(compiled, leaves)
            for a, b in zip(found, expected, strict=True):
                if isinstance(b, torch.Tensor):
                    torch.testing.assert_close(a, b, rtol=RTOL, atol=ATOL, equal_nan=True)
        except AssertionError as error:
            return f"differs: {str(error).splitlines()[-1]}"
        except Exception as error:
            return f"fails: {' '.join(str(error).split())[:160]}"
        said = "agrees"
    return said


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operators", nargs="*", help="names of torch's database; all by default")
    parser.add_argument("--samples", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for operator in operators(asked.operators):
        said = outcome(operator, asked.samples)
        counts[said.split(":")[0]] += 1
        if said != "agrees":
            print(f"{operator.name} {operator.variant_test_name}: {said}", flush=True)
    print(", ".join(f"{count} {said}" for said, count in counts.most_common()))


if __name__ == "__main__":
    main()
