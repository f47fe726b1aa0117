"""Records of version 0.2 as this version writes them; every figure stays as it is.

    python lab/rewrite_records.py docs/results/records/*.jsonl

Kept while runs that were begun with 0.2 still bring records: gather them there, rewrite them here. A file
that is rewritten already stays byte for byte. Names of configurations (`config`) stay those of 0.2.
"""

import argparse
import json
from pathlib import Path
from typing import Any

MODELS = {"np": "neural_process"}
SETTINGS = {"local_kl": "local_kl_scale", "latent_kl": "latent_kl_scale", "weight_kl": "weight_kl_scale"}
WITHOUT_DRAWS = ("softmax", "edl", "temperature", "ensemble")


def rewritten(line: dict[str, Any], prediction: str | None) -> dict[str, Any]:
    """A record with the names of today, and how its run predicted, where it has scores.

    >>> rewritten({"model": "np", "settings": {"model.weight_kl": 0.0}, "error": 0.1}, "ten draws")
    {'model': 'neural_process', 'settings': {'model.weight_kl_scale': 0.0}, 'error': 0.1,
     'prediction': 'ten draws'}
    """
    renamed = {**line, "model": MODELS.get(line["model"], line["model"])}
    renamed["settings"] = {_setting(name): value for name, value in line["settings"].items()}
    if line.get("positive") == "out-of-domain":
        renamed["positive"] = "out-of-distribution"
    if prediction is not None:
        renamed.setdefault("prediction", prediction)
    return renamed


def _setting(name: str) -> str:
    section, dot, own = name.rpartition(".")
    return section + dot + SETTINGS.get(own, own)


def _prediction(line: dict[str, Any]) -> str | None:
    """How version 0.2 predicted; None for a line without scores, as of hours."""
    if "error" not in line and "ood" not in line:
        return None
    if line["model"] in WITHOUT_DRAWS or str(line.get("ood", "")).startswith("corruption/"):
        return "no draws"
    return "one draw" if line["preset"] == "authors" else "ten draws"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="files of records")
    for path in parser.parse_args().files:
        lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        texts = [json.dumps(rewritten(line, _prediction(line)), ensure_ascii=False) for line in lines]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    main()
