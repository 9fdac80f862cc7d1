"""An invented run of ``bench kernels`` with the shapes of a GPU. No number in it was measured."""

from engine.workload.kernel_ledger import work

SHAPES = {
    "add_rmsnorm": ("1 x 1024", "256 x 1024", "8192 x 4096"),
    "silu_mul": ("1 x 3072", "256 x 3072", "8192 x 14336"),
    "rope_write_kv": ("1 tokens, 16/8 heads", "256 tokens, 16/8 heads", "16384 tokens, 16/8 heads"),
    "decode": (
        "64 rows x 1024, 16/8 heads",
        "64 rows x 8192, 16/8 heads",
        "64 rows x 4096, 32/8 heads",
        "256 rows x 1024, 16/8 heads",
        "1 rows x 1024, 16/8 heads",
        "1 rows x 32768, 32/8 heads",
    ),
    "prefill": ("4 rows x 2048, 16/8 heads", "1 rows x 8192, 16/8 heads"),
    "linear 0.6B qkv": ("M=1, 1024 -> 4096", "M=4, 1024 -> 4096"),
    "linear 8B down": ("M=1, 14336 -> 4096",),
    "linear head": ("M=1, 1024 -> 151936",),
    "sample greedy": ("256 x 151936",),
    "sample draw": ("256 x 151936",),
    "sample top-k, top-p": ("256 x 151936",),
}
PEERS = {
    "add_rmsnorm": {"eager": 1.9, "compile": 1.02, "flashinfer": 1.01},
    "silu_mul": {"eager": 1.7, "compile": 1.03},
    "rope_write_kv": {"eager": 6.0, "compile": 1.6},
    "decode": {"sdpa": 1.4, "flashinfer": 1.02},
    "prefill": {"sdpa": 0.8},
    "linear": {"cublas": 1.8},
    "sample": {"eager": 3.0},
}
CEILINGS = {
    "copy_bandwidth": 4.1e12,
    "read_bandwidth": 4.4e12,
    "matmul_flops": 7.0e14,
    "launch_eager_s": 4.2e-6,
    "launch_graph_s": 1.1e-6,
}


def sample_run(device: str = "INVENTED GPU", date: str = "2026-01-02T03:04:05+00:00") -> dict:
    """A document as ``bench kernels --json`` writes it."""
    results = [_entry(kernel, shape) for kernel, shapes in SHAPES.items() for shape in shapes]
    meta = {"device": device, "date": date, "driver": "999.1", "versions": {"torch": "0.0"}, "commit": "0123456789"}
    return {"meta": meta | {"config": {"ceilings": CEILINGS}}, "results": results}


def _entry(kernel: str, shape: str) -> dict:
    done = work(kernel, shape)
    bandwidth, peak = CEILINGS["read_bandwidth"], CEILINGS["matmul_flops"]
    us = 1.2 + 1.1e6 * max(done.bytes / bandwidth, done.flops / peak * 1.4)
    peers = {name: ratio * us for name, ratio in PEERS[kernel.partition(" ")[0]].items()}
    of_ceiling, head = done.bytes / us * 1e6 / bandwidth, {"kernel": kernel, "shape": shape, "dtype": "bfloat16"}
    return head | {
        "us": us,
        "gb_s": done.bytes / us / 1e3,
        "of_ceiling": of_ceiling,
        "peers": peers,
        "max_rel_err": 0.004,
    }
