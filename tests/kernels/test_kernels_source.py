"""The source of the kernels, read as a tree."""

import ast
import builtins
from pathlib import Path

import pytest

KERNELS = sorted((Path(__file__).parents[2] / "kernels").glob("*.py"))
GLUON = {"gl", "fence_async_shared", "mbarrier", "tma", "warpgroup_mma", "warpgroup_mma_wait"}
LANGUAGE = {"tl", "triton"} | GLUON


def is_jitted(node):
    """Whether ``node`` is a function under ``@jit`` or ``@jit(...)``."""
    if not isinstance(node, ast.FunctionDef):
        return False
    decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(isinstance(d, ast.Name) and d.id == "jit" for d in decorators)


JITTED = {node.name for path in KERNELS for node in ast.parse(path.read_text()).body if is_jitted(node)}


def free_names(function):
    """Names that a function body reads and nothing inside it binds."""
    names = [node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {argument.arg for argument in function.args.args}
    return {node.id for node in names} - bound


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_C_11_jitted_functions_read_no_python_globals(path):
    """Newer Triton refuses module constants inside kernels: only the language, other kernels and builtins (C-11)."""
    allowed = LANGUAGE | JITTED | set(dir(builtins))
    for node in filter(is_jitted, ast.parse(path.read_text()).body):
        assert free_names(node) <= allowed, (node.name, free_names(node) - allowed)


def test_there_are_jitted_functions():
    """The test above looks at something."""
    assert len(JITTED) >= 12
