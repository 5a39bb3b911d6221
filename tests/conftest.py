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

from tests.support.draws import SEED, TIMES

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
