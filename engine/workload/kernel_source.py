"""The source of a kernel in its three parts, cut from the files themselves: reference, Triton kernel, launcher.

Files keep that order (design.md), but attention shares its reference between two kernels; so each function is put into
a part by what it is: compiled by ``jit``, or named ``*_reference``, or public. Helpers follow the function they serve.
"""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "kernels"
PARTS = ("reference", "kernel", "launcher")
FILES = {  # the file that holds the kernel first, then those that it needs
    "add_rmsnorm": ("rmsnorm",),
    "silu_mul": ("silu_mul",),
    "rope_write_kv": ("rope_kv", "kv_format"),
    "decode": ("decode", "shares", "attention", "kv_format"),
    "prefill": ("prefill", "prefill_hopper", "hopper_tiles", "attention", "kv_format"),
    "linear": ("skinny", "slices", "products"),
    "quant": ("quant_linear", "quant_row", "quant_dot", "quant_words", "dequantise"),
    "sample": ("sampling", "filters"),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive lines ``first .. last`` of ``kernels/<file>.py`` that belong to one part."""

    part: str
    file: str
    first: int
    last: int
    code: str


def about(kernel: str) -> str:
    """The docstring of the file that holds the kernel: what it computes and why it is fused."""
    return ast.get_docstring(_parsed(FILES[kernel][0])[0]) or ""


@cache
def pieces(kernel: str) -> dict[str, list[Piece]]:
    """Part -> its pieces, in the order of the files. Raises ``KeyError`` for an unknown kernel."""
    found: dict[str, list[Piece]] = {part: [] for part in PARTS}
    for file in FILES[kernel]:
        for piece in _cut(file):
            found[piece.part].append(piece)
    return found


def _cut(file: str) -> list[Piece]:
    tree, lines = _parsed(file)
    part, runs = "reference", []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        part = _part_of(node, part)
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if runs and runs[-1][0] == part:
            runs[-1][2] = node.end_lineno
        else:
            runs.append([part, first, node.end_lineno])
    return [Piece(each, file, first, last, "\n".join(lines[first - 1 : last])) for each, first, last in runs]


def _part_of(node: ast.FunctionDef, before: str) -> str:
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    if any(isinstance(each, ast.Name) and each.id == "jit" for each in decorators):
        return "kernel"
    if node.name.endswith("_reference"):
        return "reference"
    return "launcher" if not node.name.startswith("_") or before == "kernel" else before


@cache
def _parsed(file: str) -> tuple[ast.Module, list[str]]:
    text = (FOLDER / f"{file}.py").read_text(encoding="utf-8")
    return ast.parse(text), text.splitlines()
