"""The Triton kernels in Triton's interpreter: one process for all cases, as the choice falls when Triton loads."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).parent
MODULES = ("attention_cases", "kv_format_cases", "layer_cases", "linear_cases", "quant_cases", "sampling_cases")
MODULES += ("interpreted_kernels",)
CASES = [
    node.name
    for module in MODULES
    for node in ast.parse((HERE / f"{module}.py").read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Per test function: the number of cases that passed, and the texts of those that did not."""
    report = tmp_path_factory.mktemp("interpreter") / "report.xml"
    command = [sys.executable, "-m", "pytest", HERE / "interpreted_kernels.py", "-q", f"--confcutdir={HERE}"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, cwd=HERE.parents[1], capture_output=True, text=True
    )
    assert report.exists(), done.stdout + done.stderr
    result = {}
    for case in ElementTree.parse(report).iter("testcase"):
        passed, bad = result.get(case.get("name").partition("[")[0], (0, []))
        problems = [f"{case.get('name')}\n{problem.text}" for problem in case if problem.tag in ("failure", "error")]
        result[case.get("name").partition("[")[0]] = (passed + (not len(case)), bad + problems)
    return result


@pytest.mark.parametrize("case", CASES)
def test_in_the_interpreter(outcomes, case):
    """What a compiled kernel would do, on tiny shapes (a wrong mask, stride or merge shows here)."""
    passed, problems = outcomes.get(case, (0, ["it did not run"]))
    assert passed and not problems, "\n\n".join(problems)
