"""Run by an interpreter that has optimum-onnx: what `ORTModelFor...` gives for each job of a file.

`python optimum_reader.py ASKED.json GIVEN.json`
"""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers

readers: Any = import_module("optimum.onnxruntime")  # in that environment only


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """What one job gives."""
    try:
        model = getattr(readers, job["class"]).from_pretrained(job["folder"], **job.get("loading", {}))
        inputs = {name: torch.tensor(each) for name, each in job["inputs"].items()}
        if job["kind"] == "generate":
            return {"found": model.generate(**inputs, **job["options"]).tolist()}
        return {"found": getattr(model(**inputs), job["options"]["output"]).tolist()}
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Writes what all jobs give."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    asked, given = map(Path, sys.argv[1:])
    found = [answer(job) for job in json.loads(asked.read_text(encoding="utf-8"))]
    given.write_text(json.dumps(found), encoding="utf-8")


main()
