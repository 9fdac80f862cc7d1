"""Results of experiments on disk: the recordings that this tree ships, and a learner's own newest ones.

A file ``L08.mixed.json.gz`` holds what one experiment returned, the controls it ran with, and the device, driver,
versions and commit of the machine.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lessons.figures.style import Provenance
from lessons.kit.items import Origin
from lessons.kit.places import data_folder, write_whole

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"


@dataclass(frozen=True, slots=True)
class Kept:
    """What an experiment returned, and where and with what it ran."""

    results: dict
    values: Mapping[str, object]
    machine: Mapping[str, object] = field(default_factory=dict)  # device, driver, versions, commit, date
    kind: Provenance = "Measured"

    @property
    def origin(self) -> Origin:
        """The badge: device and date; a recording says its commit and versions too."""
        known = [self.machine.get("device", ""), str(self.machine.get("date", ""))[:10]]
        if self.kind == "Recorded":
            versions = self.machine.get("versions", {})
            known += [f"{name} {versions[name]}" for name in ("torch", "triton") if name in versions]
            known += [str(self.machine.get("commit", ""))[:7]]
        return Origin(self.kind, " · ".join(str(each) for each in known if each))


class Shelf:
    """A folder of such files.

    Args:
        folder: where they are.
        recorded: they were made elsewhere: all of them are called Recorded.
    """

    def __init__(self, folder: Path, recorded: bool = False) -> None:
        self._folder, self._recorded = folder, recorded

    def get(self, lesson: str, experiment: str) -> Kept | None:
        """The kept results, None when there are none that can be read."""
        try:
            document = json.loads(gzip.decompress(self.path(lesson, experiment).read_bytes()))
            kind = "Recorded" if self._recorded else document["kind"]
            return Kept(document["results"], document["values"], document["machine"], kind)
        except (OSError, ValueError, KeyError, EOFError):
            return None

    def put(self, lesson: str, experiment: str, kept: Kept) -> Path:
        """Keep results in place of older ones; returns the file."""
        path = self.path(lesson, experiment)
        write_whole(path, gzip.compress(json.dumps(asdict(kept), allow_nan=False).encode(), mtime=0))
        return path

    def drop(self, lesson: str) -> None:
        """Forget what is kept of a lesson."""
        for path in self._folder.glob(f"{lesson}.*.json.gz"):
            path.unlink(missing_ok=True)

    def path(self, lesson: str, experiment: str) -> Path:
        """Where the results of an experiment are kept."""
        return self._folder / f"{lesson}.{experiment}.json.gz"


def recordings() -> Shelf:
    """What this tree ships."""
    return Shelf(RECORDINGS, recorded=True)


def own_results() -> Shelf:
    """What this learner measured, or chose to look at instead."""
    return Shelf(data_folder() / "results")
