"""``python -m lessons.audit NAME``: one measurement as JSON on standard output, progress on standard error.

``all`` measures whatever this machine can and writes the format of ``lessons/recordings/claims.json``. Without a name
the measurements are listed.
"""

import argparse
import json
import sys

from engine.workload.report import ProgressBar
from lessons.audit.measure.catalogue import ALL, measure
from lessons.audit.store import file_text


def main() -> int:
    """Run one measurement or all; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lessons.audit", description="Measure what a claim needs.")
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"all, {', '.join(ALL)}")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    args = parser.parse_args()
    if args.name is None:
        print("\n".join(f"{name}{'  (needs a GPU)' if each.cuda else ''}" for name, each in ALL.items()))
        return 0
    progress = ProgressBar()
    try:
        text = _text(args.name, _device(args.device), progress)
    except (ValueError, RuntimeError, OSError) as error:
        print(f"python -m lessons.audit: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    finally:
        progress.close()
    print(text)
    return 0


def _text(name: str, device: str, progress: ProgressBar) -> str:
    """The JSON of one measurement, or of all that ``device`` can do."""
    if name != "all":
        return json.dumps(measure(name, device, progress), allow_nan=False)
    able = [each for each in ALL if device == "cuda" or not ALL[each].cuda]
    return file_text({each: measure(each, device, progress) for each in able})


def _device(asked: str) -> str:
    """cpu or cuda."""
    import torch

    if asked == "cpu" or not torch.cuda.is_available():
        torch.set_num_threads(1)  # small products lose by waiting for a second core
        return "cpu"
    return "cuda"


if __name__ == "__main__":
    sys.exit(main())
