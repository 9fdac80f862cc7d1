"""A workload for a model with a shorter context: all lengths divided by one number, so that their shape stays."""

from dataclasses import replace

from engine.workload.items import Item, Workload


def shrunk(workload: Workload, max_model_len: int) -> Workload:
    """The workload with all lengths divided so that the longest request fits; its name says by which number."""
    divisor = -(-workload.longest // max_model_len)
    if divisor == 1:
        return workload
    items = [_shorter(item, divisor) for item in workload.items]
    return replace(workload, name=f"{workload.name}, lengths / {divisor}", items=items)


def _shorter(item: Item, divisor: int) -> Item:
    """At least one token in, and one out."""
    prompt, forced = max(1, len(item.prompt_ids) // divisor), item.forced_output_length
    return replace(
        item,
        prompt_ids=item.prompt_ids[:prompt],
        max_tokens=max(1, item.max_tokens // divisor),
        forced_output_length=None if forced is None else max(1, forced // divisor),
    )
