"""wait-for-prefix: who shares a prefix that is being computed waits for it instead of computing it once more."""

from collections.abc import Sequence

from engine.request import Request
from engine.scheduling.capacity import Shortage
from engine.trace.events import Reason


def shortage(request: Request, num_hits: int, prefilling: Sequence[Request], block_size: int) -> Shortage | None:
    """``Reason.WAITING_FOR_PREFIX`` with the tokens to come and the request that computes them, when one that prefills
    now is about to write the block behind the ``num_hits`` that ``request`` would hit; else None.

    Blocks become addressable one schedule after their step was launched, so most waits last one step; they end at the
    latest with the prompt of the other request, which nothing but its own end or preemption can hold up.
    """
    wanted = request.block_hashes[num_hits : (request.num_tokens - 1) // block_size]
    for other in prefilling:
        coming = other.block_hashes[num_hits:] if num_hits >= other.num_hashed_blocks else ()
        if wanted and coming and coming[0] == wanted[0]:
            return Reason.WAITING_FOR_PREFIX, _common(wanted, coming) * block_size, other.id
    return None


def _common(wanted: Sequence[bytes], coming: Sequence[bytes]) -> int:
    different = (i for i, (one, other) in enumerate(zip(wanted, coming)) if one != other)
    return next(different, min(len(wanted), len(coming)))
