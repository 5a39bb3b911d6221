"""Functions of the user's that have the names of those that tell people something, `log`, and decide by the text."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from tests.support.right_or_refused import first_wrong
from tests.support.written_functions import function_of

WAYS = ("direct", "torch.export")
HEAD = """
import contextlib, functools, logging, types
import torch
logger = logging.getLogger("own functions")
seen = []
class Log:
    def log(self, text): seen.append(text)
    def info(self, text, *more): self.last = text
    @staticmethod
    def debug(text): seen.append(text)
    @classmethod
    def warn(cls, text): cls.text = text
    def __call__(self, text): seen.append(text)
class Quiet(Log):
    def log(self, text): super().log(text)
    def error(self, text):
        if "12" in text: seen.append("yes")
own = Log()
def log(text): seen.append(text)
def info(text, *more): seen.extend(more)
def check_rows(flag, text="", msg=""): seen.append(msg or text)
def rows_check(text): seen.append("yes" if text == "12" else "no")
def told(n, msg): seen.append(msg)
def record_function(name):
    seen.append(name)
    return torch.no_grad()
def warning(text): handed(text)
def handed(text): seen.append(text)
def fail(text): raise ValueError(text)
def warned(text):
    logger.warning(text)
    return text
@functools.lru_cache
def log_once(text): seen.append(text)
@functools.singledispatch
def log_kind(text): seen.append(text)
@contextlib.contextmanager
def range_push(name):
    seen.append(name)
    yield
@torch.no_grad()
def log_quietly(text): seen.append(text)
@functools.wraps(logging.info)
def log_as_python(text): seen.append(text)
class Logger(logging.Logger):
    def info(self, text): seen.append(text)
class Others:
    warning, info, error, log = log_once, log_quietly, log_as_python, functools.partial(log)
    critical = Logger("own").info
others = types.SimpleNamespace(debug=log_kind)
debug = seen.append
error = functools.partial(log)
critical = Log()
"""
ASKS = (
    "log(f'{n}')", "log(str(n))", "log('%d' % n)", "info('', f'{n}')", "check_rows(True, f'{n}')",
    "check_rows(True, msg=f'{n}')", "rows_check(f'{n}')", "told(1, msg=f'{n}')", "warning(f'{n}')", "own.log(f'{n}')",
    "own.info(f'{n}')", "own.debug(f'{n}')", "Log.warn(f'{n}')", "Quiet().log(f'{n}')", "Quiet().error(f'{n}')",
    "debug(f'{n}')", "error(f'{n}')", "critical(f'{n}')", "types.SimpleNamespace(log=log).log(f'{n}')",
    "(lambda log: log(f'{n}'))(seen.append)", "Others.warning(f'{n}')", "Others.info(f'{n}')", "Others.error(f'{n}')",
    "Others.log(f'{n}')", "Others.critical(f'{n}')", "others.debug(f'{n}')", "with range_push(f'{n}'): pass",
    "with record_function(f'{n}'): pass",
)  # fmt: skip
ANSWER = """
    told_them = [each for each in seen if "12" in each or each == "yes"] + [
        each for each in (getattr(own, "last", ""), getattr(Log, "text", "")) if "12" in each
    ]
    seen.clear(); own.__dict__.clear(); Log.text = ""
    return x * 2 if told_them else x + 1
"""


def model_of(ask: str, name: str) -> Any:
    """A function of x that tells a function of its own a text, and decides by what that did."""
    text = HEAD + f"def model(x):\n    n = x.shape[0]\n    seen.clear()\n    {ask}{ANSWER}"
    return function_of(text, f"/own_functions/{name}.py", "model", {})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ask", ASKS)
def test_what_a_function_of_the_users_does_with_a_text_is_noticed(ask: str, way: str) -> None:
    model = model_of(ask, f"{way}_{ASKS.index(ask)}")
    inputs = [torch.randn(n, 3) for n in (12, 2, 1, 3, 7)]
    assert first_wrong(model, inputs[0], way, inputs) is None


STREAMS = (
    "io.StringIO()", "io.TextIOWrapper(io.BytesIO(), write_through=True)", "Stream()",
    "type('S', (io.StringIO,), {})()",
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stream", STREAMS)
def test_what_is_printed_where_the_model_reads_it_is_noticed(stream: str, way: str) -> None:
    text = f"""
import contextlib, io
class Stream:
    text = ""
    def write(self, text): self.text += text
    def flush(self): pass
    def getvalue(self): return self.text
def model(x):
    with contextlib.redirect_stdout({stream}) as out:
        print(f"{{x.shape[0]}}")
    found = out.getvalue() if hasattr(out, "getvalue") else out.buffer.getvalue().decode()
    return x * 2 if "12" in found else x + 1
"""
    model = function_of(text, f"/own_functions/printed_{way}_{STREAMS.index(stream)}.py", "model", {})
    inputs = [torch.randn(n, 3) for n in (12, 2, 1, 3, 7)]
    assert first_wrong(model, inputs[0], way, inputs) is None


@pytest.mark.parametrize("way", WAYS)
def test_what_raises_a_text_is_noticed_where_that_is_caught(way: str) -> None:
    text = HEAD + (
        "def model(x):\n    try:\n        fail(f'{x.shape[0]}')\n    except ValueError as e:\n"
        "        return x * 2 if '12' in str(e) else x + 1\n"
    )
    model = function_of(text, f"/own_functions/raised_{way}.py", "model", {})
    inputs = [torch.randn(n, 3) for n in (12, 2, 1, 3, 7)]
    assert first_wrong(model, inputs[0], way, inputs) is None


PEOPLE = """
def log(text): logger.info(text)
def info(text, *more, **named): print(text, *more)
def debug(text):
    if isinstance(text, str):
        warning(text)
def warning(text):
    message = f"told: {text}"
    logger.warning(message)
def check_rows(flag, msg="bad"):
    if not flag:
        raise ValueError(msg)
def warn(text, logger=None): logging.getLogger("others").warning(text)
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log = logger
        self.inner = torch.nn.Identity()
    def warn(self, text): self.log.warning(text)
    def forward(self, x):
        n = x.shape[0]
        self.warn(f"{n} rows")
        self.log.info("%d rows", n)
        return x * 2
"""
TOLD = (
    "log(f'{n} rows')", "info(f'{n}', f'{n}')", "debug(f'{n}')", "warning(str(n))", "check_rows(True, f'{n}')",
    "check_rows(x.shape[1] == 3, msg=f'{n} rows')", "warn(f'{n}')", "logging.getLogger('a').warning(f'{n}')",
    "logger.error(f'{n}')", "print(f'{n}')", "torch._check(x.shape[1] == 3, lambda: f'{n}')",
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ask", TOLD)
def test_what_a_function_of_the_users_only_tells_people_fixes_nothing(ask: str, way: str) -> None:
    text = HEAD + PEOPLE + f"def model(x):\n    n = x.shape[0]\n    {ask}\n    return x * 2\n"
    model = function_of(text, f"/own_functions/told_{way}_{TOLD.index(ask)}.py", "model", {})
    program = irkit.to_onnx(model, (torch.ones(12, 3),), dynamic_shapes=({0: "n"},), capture=way)
    assert torch.equal(program(torch.ones(5, 3)), torch.ones(5, 3) * 2)


@pytest.mark.parametrize("way", WAYS)
def test_a_method_of_a_module_that_tells_people_fixes_nothing(way: str) -> None:
    made = function_of(HEAD + PEOPLE + "def made(): return Own()\n", f"/own_functions/m_{way}.py", "made", {})
    program = irkit.to_onnx(made(), (torch.ones(12, 3),), dynamic_shapes=({0: "n"},), capture=way)
    assert torch.equal(program(torch.ones(5, 3)), torch.ones(5, 3) * 2)


def test_text_of_a_tensor_for_a_function_of_the_users_is_refused() -> None:
    model = function_of(HEAD + "def model(x):\n    log(f'{x}')\n    return x\n", "/own_functions/t.py", "model", {})
    with pytest.raises(IrkitError, match="text of a tensor"):
        irkit.to_onnx(model, (torch.ones(12, 3),), capture="direct")
    assert isinstance(model, types.FunctionType)
