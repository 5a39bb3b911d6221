"""Run by an interpreter that has onnxruntime-genai: what `Generator` gives for each job of a file.

`python genai_reader.py ASKED.json GIVEN.json`
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

reader: Any = import_module("onnxruntime_genai")  # an extra


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """What one job gives; padding is told from tokens by what they are."""
    try:
        inputs, count = job["inputs"], job["options"]["max_new_tokens"]
        sound = np.array(inputs["input_features"], np.float32) if "input_features" in inputs else None
        ids = np.array([[job["start"]]] * len(sound) if sound is not None else inputs["input_ids"], np.int32)
        length = ids.shape[1] + count
        model = reader.Model(job["folder"])
        asked = reader.GeneratorParams(model)
        beams = job["options"].get("num_beams", 1)
        asked.set_search_options(
            max_length=length, min_length=length, batch_size=len(ids), do_sample=False, num_beams=beams
        )
        made = reader.Generator(model, asked)
        if sound is not None:
            given = reader.NamedTensors()
            given["audio_features"] = reader.Tensor(sound)
            made.set_inputs(given)
        made.append_tokens(ids)
        while not made.is_done():
            made.generate_next_token()
        return {"found": [[int(token) for token in made.get_sequence(i)] for i in range(len(ids))]}
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Writes what all jobs give."""
    asked, given = map(Path, sys.argv[1:])
    found = [answer(job) for job in json.loads(asked.read_text(encoding="utf-8"))]
    given.write_text(json.dumps(found), encoding="utf-8")


main()
