"""The house of design.md: who may import whom, and what deciding must never load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("engine", "kernels", "lessons", "pages", "app")
LEAVES = {"engine.errors", "engine.config", "engine.request", "engine.step"}

# part (longest prefix wins) -> prefixes of ours that it may import
MAY_IMPORT = {
    "engine.errors": set(),
    "engine.config": {"engine.errors"},
    "engine.request": {"engine.errors"},
    "engine.step": {"engine.request"},
    "engine.trace": {"engine.trace"},
    "engine.scheduling": LEAVES | {"engine.scheduling", "engine.trace.events"},
    "engine.text": set(),
    "engine.tokenizer": LEAVES | {"engine.chat", "engine.model_files"},
    "engine.bundled": {"engine.bundled"},
    "kernels": {"kernels"},
    "engine.worker": LEAVES | {"engine.worker", "engine.model_files", "kernels"},
    "engine.engine": LEAVES
    | {"engine.scheduling", "engine.trace", "engine.tokenizer", "engine.clock"}
    | {"engine.answers", "engine.limits", "engine.run_record", "engine.step_times"},
    "engine.process": {"engine"},
    "engine.driver": LEAVES
    | {"engine.trace", "engine.tokenizer", "engine.stream", "engine.link", "engine.loading", "engine.messages"}
    | {"engine.limits", "engine.workload.race_spec"},
    "engine.workload": {"engine", "kernels"},
    "engine.workload.kernel_cases": {"engine.workload", "kernels"},
    "engine.serving": {"engine"},
    "engine": {"engine"},
    "lessons": {"lessons", "engine", "kernels"},
    "pages": {"pages", "lessons", "engine"},
    "app": {"pages", "engine", "lessons"},
}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


SOURCES = sorted(p for top in OURS for p in [*ROOT.glob(f"{top}.py"), *(ROOT / top).rglob("*.py")])


@pytest.mark.parametrize("path", SOURCES, ids=_module)
def test_imports_point_down_the_house(path: Path) -> None:
    """Guards the layering: one upward import and deciding, kernels or the engine can no longer be used alone."""
    module = _module(path)
    part = max((p for p in MAY_IMPORT if _within(module, p)), key=len)
    allowed = MAY_IMPORT[part]
    ours = {name for name in _imports(path) if name.split(".")[0] in OURS}
    wrong = {n for n in ours if not any(_within(n, a) or _within(a, n) for a in allowed)}
    assert not wrong, f"{module} ({part}) imports {sorted(wrong)}"


def test_deciding_and_remembering_load_no_torch() -> None:
    """Guards the promise that scheduler, trace and all that is built on them run without torch or transformers."""
    code = (
        "import sys, engine.scheduling.scheduler, engine.trace.state, engine.trace.frame, engine.trace.metrics;"
        "bad = {'torch', 'triton', 'transformers', 'streamlit'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_tree_stays_small() -> None:
    """Guards the size limit: tracked files under 40 MiB in all, a recording at most 2 MB."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    sizes = {name: (ROOT / name).stat().st_size for name in files if name and (ROOT / name).exists()}
    assert sum(sizes.values()) < 40 * 2**20
    big = {n: s for n, s in sizes.items() if n.startswith("lessons/recordings/") and s > 2_000_000}
    assert not big


def test_ruff_is_clean() -> None:
    """Guards style: lint and format with the settings of pyproject.toml."""
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:]
