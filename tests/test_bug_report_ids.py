"""The public bug reports that this project must not repeat: each one is a test that carries its id in its name.

``test_C_04_C_14_...`` guards two of them; a report may have several tests: ``grep -rn "def test.*C_04" tests``.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parent
REPORTS = {"A": 13, "B": 12, "C": 14, "D": 15, "E": 9, "F": 6, "G": 5, "H": 11, "I": 7}  # kind -> how many there are
NOT_OFFERED = {
    "A_13": "log-probabilities of the prompt; /v1 refuses prompt_logprobs by name",
    "E_07": "mixtures of experts; such a checkpoint is refused at load",
    "E_09": "learned positions (GPT-2); such a checkpoint is refused at load",
    "I_02": "a model for Triton Inference Server",
}


def is_for_a_gpu(node: ast.Module | ast.FunctionDef) -> bool:
    """Whether a module or a test carries the mark ``gpu``, so that a machine without one passes it over."""
    if isinstance(node, ast.FunctionDef):
        return any("mark.gpu" in ast.unparse(decorator) for decorator in node.decorator_list)
    marks = [each for each in node.body if isinstance(each, ast.Assign) and ast.unparse(each.targets) == "pytestmark"]
    return any("mark.gpu" in ast.unparse(each) for each in marks)


def named_by_report() -> dict[str, list[str]]:
    """Report -> its tests that run without a GPU."""
    found = defaultdict(list)
    for path in sorted(TESTS.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        tests = [node for node in module.body if isinstance(node, ast.FunctionDef) and not is_for_a_gpu(module)]
        for test in tests:
            carried = re.match(r"test((?:_[A-Z]_\d\d)+)_", test.name)
            if carried and not is_for_a_gpu(test):
                assert ast.get_docstring(test), f"{path}: {test.name} does not say which fault it guards"
                for report in re.findall(r"[A-Z]_\d\d", carried[1]):
                    found[report].append(test.name)
    return found


def test_every_report_has_its_test_or_its_reason():
    """Guards against a report that loses its test, one whose feature arrives without a test, and a mistyped id."""
    reports = {f"{kind}_{number:02}" for kind, count in REPORTS.items() for number in range(1, count + 1)}
    assert NOT_OFFERED.keys() <= reports
    assert named_by_report().keys() == reports - NOT_OFFERED.keys()
