"""Workloads as files: JSON lines in the Mooncake schema, which public traces and other load generators use.

A line is ``{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}``; a hash id names the content
of one block of 512 prompt tokens together with all that stands before it. The file holds no text: token ids are drawn
from the hash ids, so that prompts share exactly the prefixes that the file says they share.
"""

import json
import os
from pathlib import Path
from random import Random

from engine.errors import InvalidRequest
from engine.workload.items import Item, Workload
from engine.workload.prefixes import BlockNames, random_ids

BLOCK = 512


def load_jsonl(path: str | os.PathLike, requests: int | None = None) -> Workload:
    """The first ``requests`` lines of a file (None: all), in order of time; the first arrives at 0 s.

    Raises:
        InvalidRequest: the file cannot be read, or a line is not of the schema; the message names it and the field.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest("workload", "a file that can be read", f"{path} ({error})") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()][:requests]
    items = [_item(line, f"line {number} of {path}", number) for number, line in numbered]
    if not items:
        raise InvalidRequest("workload", "a file with at least one request", str(path))
    items.sort(key=lambda item: item.arrival_s)
    first = items[0].arrival_s
    shifted = [Item(i.prompt_ids, i.max_tokens, i.forced_output_length, i.arrival_s - first) for i in items]
    return Workload(Path(path).name, shifted, 0, ("token ids drawn from hash ids",))


def save_jsonl(path: str | os.PathLike, workload: Workload) -> None:
    """Write a workload so that ``load_jsonl`` finds the same times, lengths and shared prefixes again."""
    names = BlockNames(BLOCK)
    with open(path, "w", encoding="utf-8") as file:
        for item in sorted(workload.items, key=lambda item: item.arrival_s):
            line = {
                "timestamp": round(item.arrival_s * 1e3, 3),
                "input_length": len(item.prompt_ids),
                "output_length": item.output_length,
                "hash_ids": names.of(item.prompt_ids),
            }
            file.write(json.dumps(line) + "\n")


def _item(line: str, where: str, number: int) -> Item:
    values = _object(line, where)
    length, output = (_whole(values, name, where) for name in ("input_length", "output_length"))
    time = values.get("timestamp", 0)
    if not isinstance(time, int | float) or isinstance(time, bool) or not 0 <= time < float("inf"):
        raise InvalidRequest("timestamp", f"milliseconds, 0 or more ({where})", time)
    return Item(_prompt(values.get("hash_ids"), length, where, number), output, output, time / 1e3)


def _object(line: str, where: str) -> dict:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise InvalidRequest("workload", f"JSON lines ({where}: {error})") from error
    if not isinstance(values, dict):
        raise InvalidRequest("workload", f"a JSON object on each line ({where})", values)
    return values


def _whole(values: dict, name: str, where: str) -> int:
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidRequest(name, f"a whole number of at least 1 ({where})", value)
    return value


def _prompt(hash_ids: object, length: int, where: str, number: int) -> list[int]:
    """Token ids for a prompt; one without hash ids shares nothing."""
    if hash_ids is None:
        return random_ids(Random(f"line {number}"), length)
    blocks = -(-length // BLOCK)
    if not isinstance(hash_ids, list) or len(hash_ids) != blocks or not all(isinstance(one, int) for one in hash_ids):
        raise InvalidRequest("hash_ids", f"{blocks} whole numbers, one for each {BLOCK} tokens ({where})", hash_ids)
    return [token for one in hash_ids for token in random_ids(Random(one), BLOCK)][:length]
