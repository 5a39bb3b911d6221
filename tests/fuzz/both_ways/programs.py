"""The programs that both ways of capture are compared on, by name.

A name is `collection:name`, and where that says nothing else the first call with a size that varies, in float32:
`operators:add@int64#2` is the third such sample of `add`, of int64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs

from tests.tables.coverage import databases, measure
from tests.tables.coverage.measure import Key, Undetermined, cases_of, clones, determined, dynamic_axes
from tests.tables.coverage.subjects import Subject, every_dimension
from tests.zoo.cases import CASES, case_named

COLLECTIONS = ("zoo", *databases.EVERY)
PLAIN = "float32"
"""The element type that a name leaves out."""
NAME = re.compile(r"(?P<space>\w+):(?P<own>[^@#]+)(@(?P<dtype>\w+))?(#(?P<sample>\d+))?$")


def names_of(collections: Sequence[str] = COLLECTIONS, dtypes: Sequence[str] = (PLAIN,), samples: int = 1) -> list[str]:
    """The names of the programs of some collections: of each database those of some element types, and so many samples
    of each."""
    found = [f"zoo:{case.name}" for case in CASES if case.dynamic_shapes is not None and "zoo" in collections]
    for space in (space for space in databases.EVERY if space in collections):
        for name, dtype, mode in databases.DATABASES.get(space, measure).cells():
            if mode != "dynamic" or dtype not in (*dtypes, "mixed"):
                continue
            if space != "operators" or measure.OPS[name].name not in measure.NOT_DETERMINED:
                typed = f"{space}:{name}" if dtype in (PLAIN, "mixed") else f"{space}:{name}@{dtype}"
                found += [f"{typed}#{i}" if i else typed for i in range(samples)]
    return found


def subject_of(name: str) -> Subject | None:
    """The program of a name, with every dimension of it written out; None where there is none in which a size varies.
    Raises ValueError for a name that is none."""
    found = NAME.match(name)
    if found is None:
        raise ValueError(f"{name!r} is no name of a program")
    space, own, number = found["space"], found["own"], int(found["sample"] or 0)
    if space == "zoo":
        case = case_named(own)
        model, args, kwargs = case.build()
        return Subject(model, args, kwargs, name, case.dynamic_shapes)
    dtype = found["dtype"] or ("mixed" if space == "exportdb" else PLAIN)
    every = samples_of(own, dtype) if space == "operators" else subjects_of(space, own, dtype)
    return next(islice(every, number, None), None)


def subjects_of(space: str, own: str, dtype: str) -> Iterator[Subject]:
    """The calls of a program of a database in which a size varies."""
    for each in databases.DATABASES[space].subjects(own, dtype, "dynamic"):
        shapes: Any = each.dynamic_shapes
        shapes = every_dimension(each) if isinstance(shapes, str) else shapes
        if shapes:
            yield attrs.evolve(each, dynamic_shapes=shapes)


def samples_of(own: str, dtype: str) -> Iterator[Subject]:
    """The samples of an operator whose result is determined and in which a size varies."""
    for case in cases_of(Key(own, dtype, "dynamic")):
        shapes = dynamic_axes(case)
        if not shapes or not any(map(bool, shapes["tensors"])):
            continue
        try:
            determined(case)
        except Undetermined:
            continue
        yield Subject(case.model.eval(), clones(case.args), {}, f"{own}: {case.words}", shapes)


def meant_of(name: str) -> Callable[..., bool] | None:
    """What says of tensors whether an operator, which does not ask, stays within their memory; None for most."""
    found = NAME.match(name)
    return measure.MEANT.get(found["own"]) if found is not None and found["space"] == "operators" else None
