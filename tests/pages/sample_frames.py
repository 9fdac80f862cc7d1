"""Frames of the Theatre's schema without an engine: a toy schedule that only looks right. For tests of the drawing."""

import random

SIZE = 16


class SampleRun:
    """A toy run of ``rows`` requests at a time over ``blocks`` blocks; ``frame(step)`` is the same for the same step.

    Args:
        blocks: size of the pool.
        rows: rows of the batch.
        budget: tokens a step may run.
    """

    def __init__(self, blocks: int = 64, rows: int = 8, budget: int = 64) -> None:
        self.blocks, self.rows, self.budget = blocks, rows, budget
        self.last_step = 400

    def frame(self, step: int, selected: int | None = None, live_step: int | None = None) -> dict:
        """The frame at ``step``; ``selected`` adds that request's panel."""
        draw = random.Random(7)
        live = live_step or self.last_step
        running = [self._running(row, step, draw) for row in range(self.rows)]
        waiting = [self._waiting(self.rows + place, place) for place in range(6)]
        pool = self._pool(step)
        used, cached = pool["state"].count(1), pool["state"].count(2)
        return {
            "seq": step * 3,
            "step": step,
            "t_s": step * 0.035,
            "live_seq": live * 3,
            "live_step": live,
            "first_step": 1,
            "behind_steps": live - step,
            "run": self._run(),
            "paused": False,
            "numbers": self._numbers(step, used, cached),
            "waiting": waiting,
            "waiting_total": 6,
            "running": running,
            "finished": [{"id": i, "label": _label(i), "cause": "length", "output": 30} for i in range(40, 48)],
            "finished_total": 31,
            "tokens": self._tokens(running),
            "pool": pool,
            "history": [self._bar(at) for at in range(max(1, step - 119), step + 1)],
            "events": [event for at in range(max(1, step - 60), step + 1) for event in self._events(at)][-30:],
            "marks": [[at, kind] for at in range(1, live, 9) for kind in (["preempt"] if at % 4 == 0 else ["evict"])],
            "selected": self._selected(selected, running, waiting),
        }

    def _run(self) -> dict:
        return {
            "model": "sample",
            "device": "no device",
            "batching": "in-flight",
            "capacity": "max-utilization",
            "pool_blocks": self.blocks,
            "block_size": SIZE,
            "token_budget": self.budget,
            "max_num_seqs": self.rows,
            "classroom": self.blocks <= 64,
            "provenance": "Measured",
        }

    def _numbers(self, step: int, used: int, cached: int) -> dict:
        return {
            "tokens_per_s": 1284.0 + step % 7,
            "blocks_used": used,
            "blocks_total": self.blocks,
            "blocks_cached": cached,
            "preemptions": step // 36,
            "evictions": step // 9,
            "finished": 31,
            "waiting": 6,
            "running": self.rows,
            "step_ms": 4.2,
        }

    def _running(self, row: int, step: int, draw: random.Random) -> dict:
        goal = draw.randrange(60, 160)
        output = (step + draw.randrange(60)) % goal
        prefill = row == self.rows - 1
        return {
            "id": row,
            "name": f"request-{row}",
            "label": _label(row),
            "row": row,
            "prompt": 40,
            "output": 0 if prefill else output,
            "max_tokens": goal,
            "computed": 37 if prefill else 40 + output,
            "num_tokens": 96 if prefill else 41 + output,
            "phase": "prefill" if prefill else "decode",
            "start": 0 if prefill else 40 + output,
            "tokens": 37 if prefill else 1,
            "blocks": 3 + output // SIZE,
            "tail": "" if prefill else " Mr. Darcy walked to the window, and looked out over the lawn"[: 10 + output],
            "progress": 0.38 if prefill else output / goal,
        }

    def _waiting(self, request: int, place: int) -> dict:
        text = "needs 5 blocks, 2 available" if place < 2 else f"behind {_label(self.rows)}"
        return {
            "id": request,
            "name": f"request-{request}",
            "label": _label(request),
            "state": "preempted" if place == 0 else "waiting",
            "prompt": 30 + 9 * place,
            "num_tokens": 58,
            "computed_lost": 58 if place == 0 else 0,
            "max_tokens": 96,
            "reason": "no_free_blocks" if place < 2 else "behind_head",
            "need": 5,
            "have": 2,
            "text": text,
        }

    def _tokens(self, running: list[dict]) -> dict:
        rows = [
            {key: r[key] for key in ("id", "label", "row", "phase", "start")} | {"count": r["tokens"], "last": True}
            for r in running
        ]
        return {"budget": self.budget, "used": sum(r["count"] for r in rows), "rows": rows}

    def _pool(self, step: int) -> dict:
        draw = random.Random(3)
        owner, state, refs = [], [], []
        for block in range(self.blocks):
            kind = draw.choices((1, 2, 0), (78, 14, 8))[0] if block else 1
            kind = 1 if block == step % self.blocks else kind
            owner.append(-1 if kind == 0 else (block * self.rows // self.blocks if kind == 1 else draw.randrange(20)))
            state.append(kind)
            refs.append(0 if kind != 1 else 2 if block in (9, 10) else 1)
        lru = [b + 1 for kind in (0, 2) for b in range(self.blocks) if state[b] == kind]
        return {"owner": owner, "state": state, "refs": refs, "lru": lru[:32]}

    def _bar(self, step: int) -> list:
        draw = random.Random(step)
        prefill = draw.randrange(8, self.budget - self.rows) if draw.random() < 0.3 else 0
        return [
            step,
            draw.randrange(4, self.rows + 1),
            prefill,
            0,
            int(step % 36 == 0),
            3 + draw.random() * 3,
            *_reason(step),
        ]

    def _events(self, step: int) -> list[dict]:
        at = {"step": step, "id": 4, "label": "E", "need": 1, "have": 0}
        if step % 36 == 0:
            return [at | {"kind": "preempt", "text": "preempted E: 1 block needed, 0 available"}]
        if step % 9 == 0:
            return [at | {"kind": "evict", "label": "", "id": -1, "text": "1 cached block evicted"}]
        return [at | {"kind": "hit", "text": "E found 32 tokens in the cache"}] if step % 13 == 0 else []

    def _selected(self, request: int | None, running: list[dict], waiting: list[dict]) -> dict | None:
        found = next((r for r in [*running, *waiting] if r["id"] == request), None)
        if found is None:
            return None
        runs = "row" in found
        return {
            "id": request,
            "label": found["label"],
            "state": "running" if runs else found["state"],
            "table": [11, 12, 13, 14, 20, 21, 22, 63][: found["blocks"]] if runs else [],
            "num_computed": found.get("computed", 0),
            "text": " Mr. Darcy walked to the window, and looked out over the lawn for a while",
            "prompt_text": "It was a fine morning when",
            "explain": "decodes one token a step" if runs else found["text"],
            "next_free": "Next change expected when C finishes: 6 blocks, about 9 steps.",
            "row": found.get("row", -1),
            "epoch": 0,
            "cached": 16,
            "preemptions": 0,
        }


def _reason(step: int) -> list:
    """What stopped the head at a step: nothing at first, then rows, then blocks."""
    return [["", "none", 0, 0], ["I", "max_num_seqs", 1, 8], ["I", "no_free_blocks", 5, 2]][min(2, step // 60)]


def _label(request: int) -> str:
    return chr(65 + request % 26) + (str(request // 26) if request >= 26 else "")
