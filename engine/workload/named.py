"""The workloads by the names that the command line gives them, and those in files."""

from collections.abc import Callable

from engine.errors import InvalidRequest
from engine.workload import lengths
from engine.workload.items import Workload
from engine.workload.mooncake import load_jsonl
from engine.workload.sessions import clients, sessions

BY_NAME: dict[str, Callable[[int | None, int], Workload]] = {
    "W1": lambda requests, seed: lengths.w1(requests or 256, seed),
    "1000x1000": lambda requests, seed: lengths.fixed(requests or 3000, seed),
    "azure-code": lambda requests, seed: _from_table("azure-code", lengths.AZURE_CODE, requests or 1024, seed),
    "azure-chat": lambda requests, seed: _from_table("azure-chat", lengths.AZURE_CHAT, requests or 1024, seed),
    "mooncake": lambda requests, seed: _from_table("mooncake", lengths.MOONCAKE, requests or 256, seed),
    "sharegpt": lambda requests, seed: _from_table("sharegpt", lengths.SHAREGPT, requests or 1024, seed),
    "sessions": lambda requests, seed: sessions(requests or 256, seed),
    "clients": lambda requests, seed: clients(requests or 256, seed),
}
_from_table = lengths.from_quantiles


def by_name(name: str, requests: int | None, seed: int) -> Workload:
    """The workload called ``name``, or that of a file ``NAME.jsonl`` in the Mooncake schema.

    Raises:
        InvalidRequest: an unknown name, with the names there are; or a file that is not of the schema.
    """
    if name.endswith(".jsonl"):
        return load_jsonl(name, requests)
    if name not in BY_NAME:
        raise InvalidRequest("workload", f"one of {', '.join(BY_NAME)}, or a file NAME.jsonl", name)
    return BY_NAME[name](requests, seed)
