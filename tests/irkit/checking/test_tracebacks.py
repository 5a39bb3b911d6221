"""What pytest shows of a test that fails through irkit's checks: the user's line, and what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

HEAD = """
import irkit
from irkit import op, p
from irkit.testing import assert_equivalent, check_rule, golden, guarded

x, y = irkit.hole("x"), irkit.hole("y")

@irkit.rule(p.Sub(x, y))
def wrong(m):
    return op.Add(m.x, m.y)

@irkit.rule(p.Sub(x, y))
def refused(m):
    return op.Concat(m.x, m.y, axis=7)

@irkit.operator("mine::Twice", kernel=lambda x: x * 3)
def twice(x):
    return op.Add(x, x)

V = irkit.param(irkit.tensor("f32", 3))
G = irkit.Graph((V,), (op.Sub(V, op.Abs(V)),))

def broken():
    raise LookupError("this is no error of irkit's")
"""

FAILURES = {
    "another number": ("check_rule(wrong)", "the rule wrong differs"),
    "a refused operator": ("check_rule(refused)", "builds a value that is refused"),
    "no rule": ('check_rule("wrong")', "'wrong' is not a rule"),
    "an equation": ("irkit.equation(p.Sub(x, y), p.Add(x, y)).check()", "differs"),
    "an operator": ("irkit.check_operator(twice)", "mine::Twice"),
    "golden": (
        'golden("input %x: f32[2]\\nreturn %x", lambda g: g, "input %x: f32[3]\\nreturn %x")', "made another graph"
    ),
    "equivalent": ("assert_equivalent(G, irkit.Graph((V,), (V,)))", "results differ"),
    "guarded": ("irkit.rewrite(G, guarded((wrong,)))", "differs"),
    "text": ('irkit.parse("input %x")', "line 1, column 9"),
    "a law": ('irkit.verify(irkit.Graph((), (irkit.Value("Relu", (), (), (), V.type),)))', "law 1"),
    "numbers fed": ("irkit.evaluate(G, [])", "was fed 0"),
}  # fmt: skip


NO_FAULT_OF_OURS = "golden('input %x: f32[2]\\nreturn %x', lambda g: broken(), '')"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What pytest prints of each test of a file that has one for each line."""
    folder = tmp_path_factory.mktemp("mine")
    lines = [*(line for line, _ in FAILURES.values()), NO_FAULT_OF_OURS]
    tests = [f"def test_{i}():\n    {line}\n\n" for i, line in enumerate(lines)]
    (folder / "test_mine.py").write_text(HEAD + "".join(tests))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    texts = re.split(r"^_+ test_[0-9]+ _+$", done.stdout.partition("= short test summary")[0], flags=re.M)[1:]
    return dict(zip(lines, texts, strict=True))


@pytest.mark.parametrize("what", FAILURES)
def test_the_users_line_and_the_message_are_all_that_is_shown(shown: Mapping[str, str], what: str) -> None:
    line, message = FAILURES[what]
    text = shown[line]
    assert f">   {' ' * 4}{line}" in text and message in text
    places = [at for at in text.splitlines() if ".py:" in at and not at.startswith("E ")]
    assert len(places) == 1 and places[0].startswith("test_mine.py:"), places


def test_frames_of_what_is_no_error_of_irkit_are_shown(shown: Mapping[str, str]) -> None:
    text = shown[NO_FAULT_OF_OURS]
    assert "strategies.py:" in text and "LookupError" in text
