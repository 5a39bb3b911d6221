"""Every pointwise operator of torch at special values, by a file of irkit on ONNX Runtime, against eager.

Zeros of both signs, the least and the greatest numbers of a type, neighbours of 1, infinities and NaN. The file must
give NaN and infinities where eager does, zeros of the same sign, and other numbers that are no further from the truth
than eager's are, but for `BOUNDS` units in the last place. The truth is eager's answer in float64; in float64 itself it
is what mpmath says with 40 digits, of operators that it has, else eager's answer. What ONNX Runtime's own kernels do
otherwise stands in `tests/support/named_exceptions.py`, each with its reason; an exception that explains nothing fails
too, in a run of all operators.

    python -m tests.fuzz.special_values --only erfinv,log1p --types float32,float64
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Sequence

import torch

from tests.support.named_exceptions import exceptions_of, needs
from tests.support.special_values import OPERATORS, TYPES, Need, unexpected


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what differs, by operator; the exit status says whether something does that has no name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of operators, separated by commas")
    parser.add_argument("--types", default=",".join(TYPES), help="element types")
    parser.add_argument("--all", action="store_true", help="print the named exceptions too")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    failed = run = 0
    needed: set[Need] = set()
    for name in given.only.split(",") if given.only else OPERATORS:
        for kind in given.types.split(","):
            for optimize in (True, False):
                found = unexpected(name, kind, optimize, () if given.all else exceptions_of(name, kind), needed)
                run += found is not None
                failed += bool(found)
                for each in found or ():
                    print(f"{name:32} {kind:9} {'optimized' if optimize else 'as it is':9} {each}", flush=True)
    idle = () if given.only or given.all or given.types != ",".join(TYPES) else sorted(set(needs()) - needed, key=str)
    for each, name, kind in idle:
        print(f"{name:32} {kind:9} does without {each.name} ({each.what})")
    print(f"{run} programs, {failed} of them differ; exceptions that explain nothing: {len(idle)}")
    return int(failed > 0 or bool(idle))


if __name__ == "__main__":
    sys.exit(main())
