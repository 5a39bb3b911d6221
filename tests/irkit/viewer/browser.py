"""A page in headless Chromium, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=4000",
)  # fmt: skip


@lru_cache(maxsize=1)
def chromium() -> str:
    """The path of the browser; skips the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), "")
    if not found:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    return found


def document_after(page: Path, fragment: str, folder: Path) -> str:
    """The document that a page has become once its scripts have run."""
    command = [chromium(), *OPTIONS, f"--user-data-dir={folder}", "--dump-dom", f"{page.as_uri()}#{fragment}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
