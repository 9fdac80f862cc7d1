"""All that a lesson calls. The same calls work in the app, in Jupyter and in a test; ``lessons/AUTHORS.md`` shows how.

``begin`` -> ``predict`` (locks) -> ``guard`` -> ``measure`` -> ``show`` -> ``reconcile`` -> ``exercise`` -> ``enter``
-> ``takeaway``; ``note`` and ``recall`` anywhere.
"""

from lessons.kit.cells import (
    begin,
    enter,
    exercise,
    guard,
    measure,
    miss,
    note,
    predict,
    recall,
    reconcile,
    reveal,
    right,
    seed,
    show,
    small,
    takeaway,
    wrong,
)
from lessons.kit.engines import alone, device, driver, on_gpu, race
from lessons.kit.forms import Choice, Choices, Code, Control, Number
from lessons.kit.items import Origin, Report, Row, Verdict
from lessons.kit.progress import Entry
from lessons.kit.say import Say, say
from lessons.kit.shelf import Kept

__all__ = [
    "Choice",
    "Choices",
    "Code",
    "Control",
    "Entry",
    "Kept",
    "Number",
    "Origin",
    "Report",
    "Row",
    "Say",
    "Verdict",
    "alone",
    "begin",
    "device",
    "driver",
    "enter",
    "exercise",
    "guard",
    "measure",
    "miss",
    "note",
    "on_gpu",
    "predict",
    "race",
    "recall",
    "reconcile",
    "reveal",
    "right",
    "say",
    "seed",
    "show",
    "small",
    "takeaway",
    "wrong",
]
