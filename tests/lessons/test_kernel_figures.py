"""The figures of the Kernel Lab: both themes, hollow peers, words and a table that hold every number."""

import pytest

from engine.workload.kernel_ledger import dots
from lessons.figures import fusion, roofline
from tests.pages.sample_kernels import sample_run


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("draw", [roofline.roofline_figure, roofline.size_figure, fusion.fusion_figure])
def test_figures_name_their_provenance(draw: object, theme: str) -> None:
    """Guards the badge, and figures that only work in one theme."""
    figure = draw(sample_run(), "Recorded", theme, "somewhere")
    assert any("Recorded: somewhere" in note.text for note in figure.layout.annotations)
    assert figure.to_json()


def test_every_kernel_is_a_solid_mark_and_every_peer_a_hollow_one() -> None:
    """Guards the legend: a peer drawn solid would look like ours."""
    run = sample_run()
    for draw in (roofline.roofline_figure, roofline.size_figure):
        traces = [trace for trace in draw(run).data if trace.mode == "markers" and trace.text]
        hollow = sum(len(trace.x) for trace in traces if trace.marker.symbol.endswith("-open"))
        solid = sum(len(trace.x) for trace in traces if not trace.marker.symbol.endswith("-open"))
        assert solid == len(dots(run)) and hollow == sum(len(dot.peers) for dot in dots(run))


def test_three_roofs_are_drawn() -> None:
    """Guards the third roof: bandwidth, compute and launch."""
    names = [trace.name for trace in roofline.roofline_figure(sample_run()).data if trace.mode == "lines"]
    assert names[:2] == ["bandwidth", "compute"] and "launch" in names[2]


def test_tables_hold_what_the_figures_show() -> None:
    """Guards accessibility: one line for each mark, and words that name the best and the worst."""
    run = sample_run()
    table = roofline.roofline_table(run)
    assert {len(column) for column in table.values()} == {len(dots(run))}
    assert len(table) == len(roofline.WORDS["heads"].split("|"))
    assert "of the" not in roofline.roofline_summary({**run, "results": []})
    assert "24 kernels and shapes" in roofline.roofline_summary(run)


def test_fusion_without_a_run_is_computed() -> None:
    """Guards honesty: without a measurement the figure has no diamonds, and its badge says Computed."""
    figure = fusion.fusion_figure(None, "Measured")
    assert [note.text for note in figure.layout.annotations] == ["Computed"]
    assert all(trace.type == "bar" for trace in figure.data)
    assert len(fusion.fusion_table(None)["kernel"]) == 3
    assert "not in this run" in fusion.fusion_summary(None)


def test_a_ratio_beyond_the_axis_keeps_its_value() -> None:
    """Guards a measured ratio that would vanish to the right of the bars."""
    figure = fusion.fusion_figure(sample_run())
    assert any("6.0x" in note.text for note in figure.layout.annotations)
