"""Many architectures validated side by side in processes of their own, going on where an earlier run ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from lowering.architectures.catalogue import architecture
from lowering.architectures.validation import Validation

TOGETHER = 6
"""How many architectures one process validates: it takes seconds to import torch."""


def sweep(
    names: Sequence[str],
    options: Mapping[str, Any],
    results: Path,
    jobs: int = 1,
    limit: float = 300.0,
    told: Callable[[Validation], None] = lambda _: None,
) -> list[Validation]:
    """The outcomes of architectures, in order. Each is a line of JSON in the file of results as soon as it is known;
    what stands there for the same options is not done again. `told` hears of each that is new, `limit` is how many
    seconds an architecture may take. One that ends its process, or takes longer, is an outcome as well."""
    known = rows_of(results, options)
    left = [name for name in names if name not in known]
    results.parent.mkdir(parents=True, exist_ok=True)
    with results.open("a", encoding="utf-8") as file:
        for found in validated_apart(left, options, jobs, limit):
            known[found.name] = found
            file.write(json.dumps({"options": dict(options), "outcome": found.asdict()}) + "\n")
            file.flush()
            told(found)
    return [known[name] for name in names]


def rows_of(results: Path, options: Mapping[str, Any]) -> dict[str, Validation]:
    """What the file of results has for these options; a line that was cut short is left out."""
    found: dict[str, Validation] = {}
    for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["options"] == dict(options):
            made = Validation.of(row["outcome"])
            found[made.name] = made
    return found


def validated_apart(names: Sequence[str], options: Mapping[str, Any], jobs: int, limit: float) -> Iterator[Validation]:
    """The outcomes as they come, `jobs` processes at a time."""
    waiting = [list(names[i : i + TOGETHER]) for i in range(0, len(names), TOGETHER)]
    running: dict[Future[list[Validation]], list[str]] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        while waiting or running:
            while waiting and len(running) < max(1, jobs):
                group = waiting.pop(0)
                running[pool.submit(in_process, group, options, limit)] = group
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                group, found = running.pop(done), done.result()
                yield from found
                rest = [name for name in group if name not in {each.name for each in found}]
                if rest:
                    waiting.insert(0, rest)


def in_process(names: Sequence[str], options: Mapping[str, Any], limit: float) -> list[Validation]:
    """The outcomes of architectures in a process of their own, up to one that ends it, which is an outcome, too."""
    words = [word for key, value in options.items() if value not in (None, False) for word in as_words(key, value)]
    command = [sys.executable, "-m", "irkit", "validate", *names, *words, "--json"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=limit * len(names), check=False)
        said, why = run.stdout, (run.stderr.strip().splitlines() or [""])[-1] or f"exit status {run.returncode}"
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        why = f"it takes more than {limit:g} seconds"
    found = [
        Validation.of(json.loads(line)) for line in said.splitlines() if line.startswith("{") and line.endswith("}")
    ]
    if len(found) < len(names):
        name = names[len(found)]
        found.append(Validation(name, architecture(name).task, problem=f"its process ended: {why}"))
    return found


def as_words(key: str, value: Any) -> list[str]:
    """An option as words of a command line."""
    return [f"--{key}"] if value is True else [f"--{key}", str(value)]
