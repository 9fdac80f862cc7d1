"""More contestants: other settings of this engine, transformers, and any OpenAI-compatible server by URL.

They race in a process of their own, on the requests that the controls above ask for, beside an in-flight run of the
same process. Nothing is sent anywhere before the reader has typed a URL and pressed the button.
"""

import json
from functools import lru_cache

import streamlit as st

from engine.errors import InvalidRequest
from engine.workload.contestants import SETTINGS, TRANSFORMERS, compared, contestants
from engine.workload.race_spec import RaceSpec
from lessons.figures.contestants import WORDS, contestants_figure, contestants_summary, contestants_table
from pages.parts.arena.sources import source_words
from pages.parts.badge import BORDERS
from pages.parts.engine_words import said
from pages.parts.kernel_lab.jobs import Job, jobs
from pages.parts.kernel_lab.measure import start
from pages.parts.kernel_lab.show import figure, table, theme, watch
from pages.parts.page import kept
from pages.parts.session import session
from pages.parts.words import language, sentences, t

JOB = "contestants"
LOCAL = "http://127.0.0.1:8000"


def draw(spec: RaceSpec) -> None:
    """The expander: who takes part, the button, and the newest result."""
    job = jobs().get(JOB)
    with st.expander(t("arena.others"), expanded=job is not None, key="arena_others"):
        names, remote = _chosen()
        running = job is not None and job.running
        if st.button(t("arena.others.run"), key="arena_others_run", disabled=running or not names):
            _start(spec, names, remote)
        watch(lambda: jobs().get(JOB), _progress)
        if job is not None and job.error and not job.stopped:
            st.error(t("arena.failed", why=said(job.error)), icon=":material/error:")
        elif job is not None and job.output is not None:
            _result(job.output)


def _chosen() -> tuple[list[str], bool]:
    """Names for ``--contestants``, and whether a server may be on another machine."""
    st.caption(t("arena.others.what"))
    words, names = _words(), [*SETTINGS, TRANSFORMERS]
    kept("arena_others_names", list(SETTINGS[:2]))
    picked = st.pills(
        t("arena.others.who"),
        names,
        selection_mode="multi",
        key="arena_others_names",
        format_func=lambda name: words[f"more_{name}"],
    )
    kept("arena_others_url", "")
    kept("arena_others_remote", False)
    left, right = st.columns([2, 3], gap="medium", vertical_alignment="bottom")
    url = left.text_input(t("arena.others.url"), key="arena_others_url", placeholder=LOCAL).strip()
    remote = right.checkbox(t("arena.others.remote"), key="arena_others_remote", help=t("arena.others.remote_help"))
    return [*picked, *([url] if url else [])], remote


def _start(spec: RaceSpec, names: list[str], remote: bool) -> None:
    """Check the names here, so that a wrong URL is one line at once; then race."""
    try:
        if any("://" not in name for name in names if name not in (*SETTINGS, TRANSFORMERS)):
            raise InvalidRequest("url", f"{LOCAL} or the like", names[-1])
        contestants(names, remote)
    except InvalidRequest as error:
        st.error(str(error), icon=":material/error:")
        return
    if start(JOB, _module(spec, names, remote), lambda output: None):
        st.rerun()


def _module(spec: RaceSpec, names: list[str], remote: bool) -> tuple[str, ...]:
    """The race on the command line, with the model that the app has chosen."""
    worker = session().config.worker
    shape = ("--random-weights", worker.random_weights) if worker.random_weights else ("--model", worker.model)
    sizes = {"requests": spec.requests, "rows": spec.rows, "length-spread": spec.spread, "seed": spec.seed}
    asked = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    far = ("--remote",) if remote else ()
    head = ("engine", "bench", "race", *asked, "--repeats", "1", *shape, "--device", worker.device, "--json", "-")
    return (*head, *far, "--contestants", *names)


def _progress(job: Job) -> None:
    what = said(job.words) or t("kernel_lab.starting")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(t("kernel_lab.running", what=what, s=f"{job.seconds:.0f}"))
        if st.button(t("arena.cancel"), key="arena_others_stop"):
            job.stop()


def _result(output: str) -> None:
    lines, meta = _read(output)
    words = _words()
    summary = contestants_summary(lines, words)
    worker = meta["config"]["worker"]
    source = source_words(meta | {"model": worker["random_weights"] or worker["model"]})
    drawn = contestants_figure(lines, "Measured", theme(), source, words)
    with st.container(border=True):
        figure(drawn, "arena_others_figure", summary)
    st.markdown(summary)
    st.caption(t("arena.others.note"))
    table(contestants_table(lines, words), "arena_others_table")


@lru_cache(maxsize=1)
def _read(output: str) -> tuple[list[dict], dict]:
    """The lines to show and the facts of the run; a race's document is large, and the page is drawn often."""
    document = json.loads(output)
    return compared(document["results"]), document["meta"]


def _words() -> dict[str, str]:
    known = sentences(language())
    return {name: known[f"arena.fig.{name}"] for name in WORDS} | {kind: t(f"badge.{kind}") for kind in BORDERS}
