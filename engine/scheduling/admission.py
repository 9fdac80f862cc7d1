"""Who gets a row in this step, and why the next in the queue does not.

Nobody passes the head of the queue, so the reason of one request explains all that wait, and a step costs O(1) however
many those are.
"""

from engine.config import SchedulingConfig
from engine.request import Request
from engine.scheduling import prefix_wait
from engine.scheduling.batching import Gate
from engine.scheduling.capacity import Capacity, Shortage
from engine.scheduling.kv_cache_manager import KVCacheManager
from engine.scheduling.microbatch import MicroBatchScheduler
from engine.scheduling.plan import StepPlan
from engine.scheduling.preemption import Victim
from engine.scheduling.roster import Roster
from engine.trace.events import Reason


class Admission:
    """Asks every policy in turn whether the head of the queue may enter.

    Against thrashing: nobody enters in a step that preempted or in which a row waits for a block; all known tokens of a
    newcomer must fit before its first chunk runs; ``capacity`` may keep a watermark free, and ``victim`` room for the
    next blocks of more important requests.
    """

    def __init__(
        self,
        config: SchedulingConfig,
        kv: KVCacheManager,
        gate: Gate,
        capacity: Capacity,
        victim: Victim,
        micro_batch: MicroBatchScheduler,
        roster: Roster,
    ) -> None:
        self.config, self.kv, self.gate, self.capacity, self.victim = config, kv, gate, capacity, victim
        self.micro_batch, self.roster = micro_batch, roster

    def admit_waiting(self, plan: StepPlan, steps_in_flight: int, now_ns: int) -> None:
        """Admit from the head of the queue while it fits, and note what stops the next one."""
        waiting, prefilling = self.roster.waiting, self.roster.prefilling
        idle = not self.roster.running and not steps_in_flight
        admissions_left = self.gate.admissions(waiting, idle, now_ns)
        tokens_left = self.micro_batch.tokens_left(len(plan.decodes), [r.num_to_prefill for r in prefilling])
        while waiting:
            head = waiting[0]
            obstacle = self._closed(plan, admissions_left, steps_in_flight, now_ns)
            hits = [] if obstacle else self.kv.find_hits(head)
            obstacle = obstacle or self._shortage(head, hits, tokens_left)
            if obstacle:
                return plan.leave_out(head, obstacle)
            self.roster.admit_head(hits)
            plan.admit(head)
            plan.add_blocks(head.row, self.kv.grow(head, head.num_tokens))
            tokens_left -= self.micro_batch.claim(head.num_to_prefill)
            admissions_left -= 1
        return None

    def _closed(self, plan: StepPlan, admissions_left: int, steps_in_flight: int, now_ns: int) -> Shortage | None:
        """Why nobody may enter now, whoever stands at the head."""
        rows_held = len(self.roster.running)
        if plan.preempted:
            return Reason.PREEMPTED_THIS_STEP, plan.preempted, self.kv.pool.available
        if plan.starved:
            return Reason.RESULT_PENDING, plan.starved, steps_in_flight
        if not admissions_left:
            return Reason.GATE_CLOSED, *self.gate.closed(self.roster.waiting, rows_held, now_ns)
        if not self.roster.free_rows:
            return Reason.MAX_NUM_SEQS, rows_held + 1, self.config.max_num_seqs
        return None

    def _shortage(self, head: Request, hits: list[int], tokens_left: int) -> Shortage | None:
        """What the head of the queue lacks to enter now: a prefix that is about to be there, tokens of the budget, or
        blocks. A group forms as a whole, so its members wait for no prefix and need no tokens yet."""
        if not self.gate.forms_groups:
            to_prefill = head.num_tokens - len(hits) * self.config.block_size
            if shortage := self._comes_soon(head, hits) or self.micro_batch.shortage(to_prefill, tokens_left):
                return shortage
        running = self.roster.running
        return self.capacity.shortage(head, hits, bool(running)) or self.victim.shortage(head, hits, running)

    def _comes_soon(self, head: Request, hits: list[int]) -> Shortage | None:
        if not self.config.wait_for_prefix:
            return None
        return prefix_wait.shortage(head, len(hits), self.roster.prefilling, self.config.block_size)
