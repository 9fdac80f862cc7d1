"""The Kernel Lab without a browser: each section with and without a run, the stepper, jobs that end and that fail."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.workload import online_softmax
from lessons.kit.places import data_folder
from pages.parts.kernel_lab import measure, runs, source, tiles
from pages.parts.kernel_lab.jobs import Job, Jobs, jobs
from pages.parts.session import session
from tests.pages.sample_kernels import sample_run
from tests.pages.sample_quant import sample_losses, sample_machine, sample_quant_run, sample_stages

PAGES = Path(__file__).resolve().parents[2] / "pages"
SECTIONS = ("roofline", "fusion", "tiles", "kv", "weights", "stages", "source")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's home where nothing was measured, and a tree without a recording."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(runs, "RECORDINGS", tmp_path)
    return tmp_path


@pytest.fixture
def app(home: Path) -> Iterator[AppTest]:
    """The page on a server where nothing was run."""
    jobs().forget()
    made = AppTest.from_file(str(PAGES / "main.py"), default_timeout=60).run()
    yield made.switch_page(str(PAGES / "kernel_lab.py")).run()
    jobs().forget()
    session().stop()


def _record(device: str = "INVENTED GPU") -> None:
    (runs.RECORDINGS / "kernels.json").write_text(json.dumps(sample_run(device)))


def _section(app: AppTest, name: str) -> AppTest:
    app.session_state["kernel_lab_part"] = name
    app.run()
    assert not app.exception, app.exception
    return app


def _html(app: AppTest) -> str:
    return " ".join(each.proto.body for each in app.get("html"))


def _wait(name: str, patience_s: float = 90) -> Job:
    end = time.monotonic() + patience_s
    while jobs().get(name).running:
        assert time.monotonic() < end, jobs().get(name).words
        time.sleep(0.1)
    return jobs().get(name)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_opens(app: AppTest, name: str, recorded: bool, language: str) -> None:
    """Guards a section that needs a GPU, a run, or English."""
    if recorded:
        _record()
    app.query_params["lang"] = language
    _section(app, name)


def test_without_any_run_the_page_says_so(app: AppTest) -> None:
    """Guards the empty page: no figure with nothing in it, and the button that fills it."""
    assert not app.get("plotly_chart") and "The button measures" in app.info[0].value
    assert not app.button(key="kernel_lab_measure_kernels").disabled
    assert len(_section(app, "fusion").get("plotly_chart")) == 1  # what bytes predict needs no run


def test_a_recorded_run_says_where_it_comes_from(app: AppTest) -> None:
    """Guards honesty: Recorded, with device, date and commit, on a page without a GPU."""
    _record()
    page = _section(app, "roofline")
    assert all(words in _html(page) for words in ("Recorded", "INVENTED GPU", "2026-01-02", "0123456"))
    assert len(page.get("plotly_chart")) == 2 and len(page.dataframe) == 1


def test_my_own_run_comes_first_and_ages(app: AppTest) -> None:
    """Guards the own numbers: kept by device and driver, shown before the recorded ones, with their age."""
    _record()
    date = (datetime.now(UTC) - timedelta(hours=5)).isoformat(timespec="seconds")
    runs.KERNELS.keep(json.dumps(sample_run("MY CARD", date)))
    page = _section(app, "roofline")
    assert "Measured" in _html(page) and "MY CARD" in _html(page) and "5 h old" in _html(page)
    page.session_state["kernel_lab_view_kernels"] = "recorded"
    assert "Recorded" in _html(page.run())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"meta": {"config": {"ceilings": {}}}, "results": []}'])
def test_a_broken_file_is_no_run(home: Path, text: str) -> None:
    """Guards a page that ends with a traceback because a file is half written or of another kind."""
    (runs.RECORDINGS / "kernels.json").write_text(text)
    assert runs.KERNELS.recorded() is None
    with pytest.raises(ValueError):
        runs.KERNELS.keep(text)
    assert runs.KERNELS.own() is None


def test_the_bench_runs_in_a_child_and_is_kept(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the button: a real bench of one kernel, words while it runs, the engine held, the result on the page."""
    held = []

    def within() -> object:
        held.append(True)
        return session().driver().exclusive("the Kernel Lab measures")

    module = ("engine", "bench", "kernels", "--device", "cpu", "--kernel", "silu_mul", "--json", "-")
    job = jobs().start(measure.KERNELS.job, module, within=within, then=runs.KERNELS.keep)
    assert _wait(measure.KERNELS.job) is job and not job.error, job.error
    assert held and any("silu_mul" in line for line in job.lines)
    assert session().status().busy == ""
    assert [entry["kernel"] for entry in runs.KERNELS.own().document["results"]] == ["silu_mul"]
    assert "Measured" in _html(_section(app, "roofline"))


def test_a_job_that_fails_says_why(app: AppTest) -> None:
    """Guards silence: the last words of the child are shown, and the button works again."""
    jobs().start(measure.KERNELS.job, ("engine", "bench", "kernels", "--kernel", "nonsense"))
    assert "nonsense" in _wait(measure.KERNELS.job).error
    page = _section(app, "roofline")
    assert "nonsense" in page.error[0].value and not page.button(key="kernel_lab_measure_kernels").disabled


def test_a_job_can_be_stopped() -> None:
    """Guards a child that nobody can end; and that two starts make one child."""
    desk = Jobs()
    job = desk.start("slow", ("http.server", "0", "--bind", "127.0.0.1"))
    assert desk.start("slow", ("http.server", "0")) is job
    while job.process is None:
        time.sleep(0.01)
    job.stop()
    job.process.wait(20)
    end = time.monotonic() + 20
    while job.running and time.monotonic() < end:
        time.sleep(0.05)
    assert job.error == "stopped"


def test_the_stepper_steps_forwards_and_back(app: AppTest) -> None:
    """Guards the transport: the same tile after a step and a step back, ends that stop, a marked rescale."""
    page = _section(app, "tiles")
    first = _html(page)
    assert "shrunk'" not in first
    after = _html(page.button(key="kernel_lab_step").click().run())
    steps = online_softmax.tiles(online_softmax.problem(1), 4)
    assert after.count("↻") == steps[1].rescaled.sum() > 0
    assert _html(page.button(key="kernel_lab_back").click().run()) == first
    page.button(key="kernel_lab_end").click().run()
    assert page.button(key="kernel_lab_step").disabled
    assert any("acc / l is the answer" in each.value for each in page.markdown)
    page.button(key="kernel_lab_start").click().run()
    assert page.button(key="kernel_lab_back").disabled and "−∞" in _html(page)


def test_other_numbers_begin_anew(app: AppTest) -> None:
    """Guards a tile of old numbers beside new ones."""
    page = _section(app, "tiles")
    before = _html(page.button(key="kernel_lab_end").click().run())
    page.button(key="kernel_lab_other").click().run()
    assert _html(page) != before and not page.button(key="kernel_lab_step").disabled


def test_the_real_kernel_is_run_on_request(app: AppTest) -> None:
    """Guards the claim that the stepper shows what the kernel does: interpreted in a child, compared, badged."""
    page = _section(app, "tiles")
    page.button(key="kernel_lab_real").click().run()
    job = _wait("tiles 1 4")
    assert not job.error, job.error
    page.run()
    assert any("It agrees" in each.value for each in page.markdown) and "interpreted on this CPU" in _html(page)


def test_source_and_ptx(app: AppTest) -> None:
    """Guards the three folded parts, and PTX without a GPU."""
    page = _section(app, "source")
    assert [expander.label[0] for expander in page.expander] == ["1", "2", "3"]
    assert any("tl.rsqrt" in each.value for each in page.code)
    page.button(key="kernel_lab_ptx").click().run()
    job = _wait("ptx add_rmsnorm")
    assert not job.error, job.error
    page.run()
    assert any(".target sm_90" in each.value for each in page.code) and len(page.dataframe) == 1


def test_without_triton_the_page_says_so(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards a traceback where Triton is not installed: a sentence takes the place of the buttons."""
    for section in (tiles, source):
        monkeypatch.setattr(section, "find_spec", lambda name: None)
    for name in ("tiles", "source"):
        page = _section(app, name)
        assert "triton is not installed" in page.info[0].value
        assert not {"kernel_lab_real", "kernel_lab_ptx"} & {button.key for button in page.button}


def test_a_run_of_references_says_so_and_claims_no_fusion(app: AppTest) -> None:
    """Guards a CPU run that would pass for the Triton kernels: a warning, and no measured ratio beside the bytes."""
    run = sample_run()
    run["meta"]["config"]["ceilings"] = run["meta"]["config"]["ceilings"] | {"launch_graph_s": 0.0}
    runs.KERNELS.keep(json.dumps(run))
    assert "no Triton kernel ran" in _section(app, "roofline").warning[0].value
    page = _section(app, "fusion")
    assert "no Triton kernel ran" in page.warning[0].value and "by the clock" not in _html(page)


def test_8_bit_formats_are_shown_where_the_run_has_them(app: AppTest) -> None:
    """Guards both sections of 8 bits: figures from a run with them, a sentence without, no figure of nothing."""
    _record()
    assert "Not in this run" in _section(app, "kv").info[0].value
    assert "Not in this run" in _section(app, "weights").info[0].value
    (runs.RECORDINGS / "kernels.json").write_text(json.dumps(sample_quant_run()))
    page = _section(app, "weights")
    job = _wait("weight error")
    assert not job.error, job.error
    page.run()
    assert not page.info and len(page.get("plotly_chart")) == 2 and len(page.dataframe) == 2
    page = _section(app, "kv")
    assert any("int8 is faster from 310 tokens on" in each.value for each in page.markdown)


def test_errors_are_those_of_the_bundled_model(app: AppTest) -> None:
    """Guards the live part of KV quantisation: a real cache in a child, errors by granularity, the histogram."""
    page = _section(app, "kv")
    job = _wait("kv error")
    assert not job.error, job.error
    errors = {(each["format"], each["granularity"]): each for each in json.loads(job.output)["errors"]}
    assert errors["int8", "token and head"]["key_error"] < errors["int8", "tensor"]["key_error"] < 0.05
    page.run()
    assert len(page.get("plotly_chart")) == 3  # capacity, errors, keys
    assert any("loudest channel" in each.value for each in page.markdown)


def test_stages_and_losses_are_recorded_or_asked_for(app: AppTest) -> None:
    """Guards the waterfalls: nothing but the buttons before a run, figures with words and table after."""
    page = _section(app, "stages")
    assert not page.get("plotly_chart") and not page.button(key="kernel_lab_measure_stages").disabled
    (runs.RECORDINGS / "stages.json").write_text(json.dumps(sample_stages()))
    runs.THROUGHPUT.keep(json.dumps(sample_losses()))
    page = _section(app, "stages")
    assert len(page.get("plotly_chart")) == 2 and len(page.dataframe) == 2
    assert "Recorded" in _html(page) and "Measured" in _html(page)
    assert any("Together 14.4x" in each.value for each in page.markdown)


def test_this_machine_is_measured_and_kept(app: AppTest) -> None:
    """Guards the calibration: a real one in a child, kept for this device, shown with its age."""
    page = _section(app, "roofline")
    page.button(key="kernel_lab_measure_machine").click().run()
    job = _wait("bench machine")
    assert not job.error, job.error
    assert runs.MACHINES.own_path().is_relative_to(data_folder())
    page.run()
    assert "0 min old" in _html(page) and any(metric.label == "Product, float32" for metric in page.metric)


@pytest.mark.parametrize(
    ("shelf", "document"),
    [
        (runs.STAGES, {"meta": {}, "results": [{"stage": "transformers"}]}),
        (runs.STAGES, sample_losses()),
        (runs.THROUGHPUT, sample_stages()),
        (runs.MACHINES, sample_machine() | {"meta": []}),
        (runs.MACHINES, {"meta": {}, "results": sample_machine()["results"] | {"matmul_flops": {}}}),
    ],
)
def test_a_document_of_another_bench_is_refused(home: Path, shelf: runs.Shelf, document: dict) -> None:
    """Guards the shelves: what the page cannot draw is not kept, and says of which bench it is not."""
    with pytest.raises(ValueError, match=f"not a result of bench {shelf.name}"):
        shelf.keep(json.dumps(document))
    assert shelf.own() is None
