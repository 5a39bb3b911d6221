"""One measurement in a process of its own, so that imports, memory and warm caches are nobody else's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def in_process(script: str, *arguments: str, limit: float | None = None) -> dict[str, Any]:
    """The JSON object that a script prints last. {"failed": why}, where it fails or runs past `limit` seconds."""
    command = [sys.executable, script, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {limit:.0f} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    return json.loads(done.stdout.strip().rpartition("\n")[2])
