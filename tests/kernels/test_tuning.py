"""Tiles kept on disk: measured once, found again, and never trusted blindly."""

import pytest
import torch

from kernels import tuning

CPU = torch.device("cpu")
TILES = [(16, 1), (32, 2), (64, 4)]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """A cache directory of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tuning._load.cache_clear()
    yield
    tuning._load.cache_clear()


def choose(key="a", candidates=TILES, best=(32, 2)):
    """The choice, and how many candidates were measured for it."""
    measured = []

    def measure(tile):
        measured.append(tile)
        return float(tile != best)

    return tuning.choose("product", key, candidates, measure, CPU), len(measured)


def forget():
    """As a new process would begin."""
    tuning._load.cache_clear()


def test_a_choice_is_measured_once():
    """The next call and the next process find it on disk; another key is measured by itself."""
    assert choose() == ((32, 2), 3)
    assert choose() == ((32, 2), 0)
    forget()
    assert choose() == ((32, 2), 0)
    assert choose("b", best=(64, 4)) == ((64, 4), 3)
    forget()
    assert tuning.chosen("product", "a", TILES, CPU) == (32, 2)
    assert tuning.chosen("product", "b", TILES, CPU) == (64, 4)


def test_C_10_looking_up_never_measures():
    """What a live run does: nothing kept, nothing chosen, nothing written."""
    assert tuning.chosen("product", "a", TILES, CPU) is None
    assert not tuning.tiles_file().exists()


def test_another_machine_starts_afresh(monkeypatch):
    """A tile of another GPU or compiler says nothing about this one, and is kept beside it."""
    choose()
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "machine", lambda device: "another GPU, triton 9")
        assert choose(best=(16, 1)) == ((16, 1), 3)
    forget()
    assert tuning.chosen("product", "a", TILES, CPU) == (32, 2)


def test_a_tile_that_is_no_longer_offered_is_measured_anew():
    """A newer version of a kernel may not know the tile that an older one kept."""
    choose()
    assert choose(candidates=[(16, 1), (128, 8)], best=(128, 8)) == ((128, 8), 2)


@pytest.mark.parametrize("text", ("", "{", "[1, 2]", '{"cpu": 3}', '{"cpu": {"product": [4]}}', "\x00"))
def test_a_broken_file_counts_as_empty(text, caplog):
    """A file cut short or edited by hand costs one line in the log, and the next choice replaces it."""
    tuning.tiles_file().parent.mkdir(parents=True)
    tuning.tiles_file().write_text(text)
    assert choose() == ((32, 2), 3)
    assert "not understood" in caplog.text
    forget()
    assert choose() == ((32, 2), 0)


def test_a_directory_that_cannot_be_written(tmp_path, monkeypatch, caplog):
    """The choice holds for this process, and the log says why no longer."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert choose() == ((32, 2), 3)
    assert choose() == ((32, 2), 0)
    assert "cannot be written" in caplog.text


def test_only_an_absolute_cache_directory_counts(monkeypatch):
    """As the XDG specification asks; without one it is ~/.cache."""
    for value in ("", "relative/place"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert tuning.tiles_file().is_absolute() and tuning.tiles_file().parts[-3:] == (
            ".cache",
            "flightdeck",
            "tiles.json",
        )
