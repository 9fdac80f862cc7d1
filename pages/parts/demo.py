"""The Theatre's first run: 24 requests for a pool that is too small for them.

A third of them share their first sentences, whose blocks are found in the prefix cache. Two short answers end early and
leave cached blocks behind, which are evicted when the six long ones beside them outgrow 64 blocks of 16 tokens; then a
running request is preempted, and from then on the head of the queue waits for blocks.
"""

from dataclasses import dataclass

from engine.driver import Driver
from engine.request import SamplingParams

SHARED = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this "
    "truth is so well fixed in the minds of the surrounding families, "
)
SHARED_ENDINGS = ("that the first visitor said", "that Mr. Bingley", "that on the same evening,", "that her mother")
OPENINGS = (
    "Elizabeth listened in silence, but was not convinced; their behaviour at the assembly had not been calculated to "
    "please in general; and with more quickness of observation and less pliancy of temper than her sister,",
    "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness was "
    "upon the face of the deep. And the Spirit of God moved upon the face of the waters. And God said,",
    "Emma Woodhouse, handsome, clever, and rich, with a comfortable home and happy disposition, seemed to unite some "
    "of the best blessings of existence; and had lived nearly twenty-one years in the world with",
    "The family of Dashwood had long been settled in Sussex. Their estate was large, and their residence was at "
    "Norland Park, in the centre of their property, where, for many generations,",
    "To every thing there is a season, and a time to every purpose under the heaven: a time to be born, and a time to "
    "die; a time to plant, and a time to pluck up that which is planted;",
    "No one who had ever seen Catherine Morland in her infancy would have supposed her born to be an heroine. Her "
    "situation in life, the character of her father and mother,",
)
SHORT, LONG = (20, 28), (112, 128, 144, 160)


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """A prompt and how long its answer is."""

    prompt: str
    max_tokens: int


def requests() -> list[DemoRequest]:
    """The 24 requests, the same each time."""
    return [DemoRequest(_prompt(place), _length(place)) for place in range(24)]


def submit(driver: Driver) -> None:
    """Put all of them into the queue of the paused engine: then every step is the same on every machine."""
    driver.pause()
    for place, wanted in enumerate(requests()):
        params = SamplingParams(max_tokens=wanted.max_tokens, temperature=0.8, top_p=0.95, seed=place, ignore_eos=True)
        driver.submit(wanted.prompt, params)


def _prompt(place: int) -> str:
    if place % 3 == 0:
        return SHARED + SHARED_ENDINGS[place // 3 % len(SHARED_ENDINGS)]
    return OPENINGS[place * 2 // 3 % len(OPENINGS)]


def _length(place: int) -> int:
    return SHORT[place % 2] if place % 4 == 1 else LONG[place * 7 % len(LONG)]
