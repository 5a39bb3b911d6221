"""What every test shares: hypothesis profiles, one thread of torch, random numbers that repeat."""

from __future__ import annotations

import os
import sys
import zlib
from datetime import timedelta

# Before numpy and torch are imported, which read it once: two workers on two cores, one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Models are built from their configuration classes; a test that reaches for a hub is wrong.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.support.draws import SEED, TIMES, drawn

# A first example pays for imports and capture, so no profile sets a deadline, and slow data is no failure by itself.
settings.register_profile(
    "ci",
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "nightly",
    max_examples=1000,
    deadline=timedelta(minutes=1),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))


def seed_of(name: str) -> int:
    """name -> a number that is the same in every run and in every worker (unlike `hash`)."""
    return zlib.crc32(name.encode())


WHOLE, MANY = 10_000, 24
"""From how many tests on a run is one of the whole suite; and how many cases of each test run there, and a third of the
others, which are drawn. A run of some files runs all that they have, and `make sweep` does."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out some of the cases of tests that have many, where the whole suite runs; of a file that draws its own by
    `drawn`, some of which are pinned, all run."""
    if len(items) < WHOLE or TIMES > 1:
        return
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept: set[str] = set()
    for name, cases in tests.items():
        own = not {"drawn", "draws"}.isdisjoint(vars(getattr(cases[0], "module", None) or object))
        if len(cases) > MANY and not own:
            cases = drawn(name, cases, MANY + (len(cases) - MANY) // 3, key=lambda item: item.nodeid)
        kept.update(item.nodeid for item in cases)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


@pytest.fixture(autouse=True)
def repeatable_torch(request: pytest.FixtureRequest) -> None:
    """torch, where the test's module imported it, on one thread and seeded by the test's name.

    What torch warns of once in a process it warns of in each test: a test finds alone what it finds among others.
    torch is not imported for its own sake: the tests of `irkit` run without it.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_warn_always(True)
        torch.manual_seed(seed_of(request.node.nodeid))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A random generator that gives one test the same numbers in every run, in whatever order tests run."""
    return np.random.default_rng(seed_of(request.node.nodeid))


def pytest_report_header() -> str:
    """By which numbers what is swept was drawn: `IRKIT_SEED=1 IRKIT_TIMES=1` runs the same again."""
    return f"draws: IRKIT_SEED={SEED} IRKIT_TIMES={TIMES}"
