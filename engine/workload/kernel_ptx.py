"""Compiles a kernel without a GPU and prints its PTX: ``python -m engine.workload.kernel_ptx NAME``.

One JSON line: ``{"kernel", "arch", "warps", "shared", "cubin", "counts", "ptx"}``. A process of its own, with
``TRITON_INTERPRET`` unset: the interpreter patches what the compiler needs. bf16, aligned pointers, and the tiles that
the launchers choose for the 0.6B shape.
"""

import json
import re
import sys

import torch

from kernels import decode, prefill, quant_dot, quant_words, rmsnorm, rope_kv, sampling, silu_mul, skinny
from kernels.backend import INTERPRET, tl, triton

ARCH = 90
HEADS = {"GROUP": 2, "HEAD_DIM": 128, "DIM_PAD": 128, "BLOCK_SIZE": 16}
ROPE = {"NUM_KV_HEADS": 8, "GROUP": 2, "HEAD_DIM": 128, "HALF_PAD": 64, "BLOCK_SIZE": 16, "NORM": True, "TOKENS": 1}
ROPE |= {"LARGEST": 0.0}
LINEAR = {"ROWS": 1, "K": 1024, "K_PAD": 1024, "NORM": True, "BIAS": False, "GATED": False, "RESIDUAL": False}
QUANT = {"FORM": "int4", "ASM": quant_words.FIELDS["int4", torch.bfloat16], "EVEN": True, "UPCAST": False}
QUANT |= {"PARTIAL": False, "BIAS": False, "RESIDUAL": True}
DRAW = {"LANE": sampling.LANE, "DEPTH": sampling.DEPTH, "LARGEST": sampling.LARGEST, "FILTER": False}
TYPES = {  # of parameters that are not pointers to bf16 and not 32-bit integers
    "eps": "fp32",
    "scale_log2": "fp32",
    "seed_ptr": "*i64",
    "words_ptr": "*i16",
    **dict.fromkeys(("temperature_ptr", "pivot_ptr", "score_ptr", "partial_ptr", "lse_ptr", "cos_sin_ptr"), "*fp32"),
    **dict.fromkeys(("table_ptr", "query_start_ptr", "context_ptr", "position_ptr", "slot_ptr", "token_ptr"), "*i32"),
    "arrived_ptr": "*i32",
}
NOTABLE = {  # what a reader looks for in PTX, by the beginning of an instruction
    "ld.global": "read from memory",
    "st.global": "write to memory",
    "cp.async": "copy into shared memory without waiting",
    "wgmma": "product of matrices by a warp group",
    "mma.sync": "product of matrices by a warp",
    "ex2": "power of two",
    "rsqrt": "reciprocal square root",
    "shfl": "exchange between the threads of a warp",
    "bar.sync": "wait for the other warps of the program",
    "griddepcontrol": "dependent launch",
}
SIZES = ("hidden", "width", "vocab", "outputs", "inputs")  # multiples of 16: loads of 16 bytes depend on knowing it


def cases() -> dict[str, tuple[object, dict[str, object], int, int]]:
    """Name -> kernel, constants, warps, stages."""
    norm_rows, norm_block, norm_warps = rmsnorm.tile(256, 1024)
    block_n, decode_warps, decode_stages, ahead = decode.tile(128, None, "plain", True)
    block_m, prefill_n, prefill_warps, prefill_stages = prefill.tile(128, None)
    linear_n, linear_warps = skinny.tile(1, 4096, 1024, False, 2)
    quant = quant_dot.tile("int4", 16, 4096)
    splits = {"GROUP_PAD": 16, "GROUP_POW": 2, "BLOCK_N": block_n, "CHUNK": 16, "SPLIT": True}
    splits |= {"FORMAT": "plain", "DOT": tl.bfloat16, "AHEAD": ahead, "PTX": ""}
    tiled = {"BLOCK_M": block_m, "BLOCK_N": prefill_n, "ROWS_PAD": 256, "SCALED": False, "UPCAST": False}
    norm = {"ADD": True, "ROWS": norm_rows, "BLOCK": norm_block}
    return {
        "add_rmsnorm": (rmsnorm._rmsnorm_kernel, norm, norm_warps, 3),
        "silu_mul": (silu_mul._silu_mul_kernel, {"BLOCK": 1024}, 4, 3),
        "rope_write_kv": (rope_kv._rope_write_kv_kernel, ROPE, 1, 3),
        "decode": (decode._decode_kernel, HEADS | splits, decode_warps, decode_stages),
        "prefill": (prefill._prefill_kernel, HEADS | tiled, prefill_warps, prefill_stages),
        "linear": (skinny._linear_kernel, LINEAR | {"BLOCK_N": linear_n}, linear_warps, 3),
        "quant": (
            quant_dot._tile_product_kernel,
            QUANT | {"BLOCK_N": quant.outputs, "BLOCK_M": quant.rows, "STAGES": quant.stages},
            quant.warps,
            quant.stages,
        ),
        "sample": (sampling._sample_kernel, DRAW, 1, 3),
    }


def compiled(name: str, arch: int = ARCH) -> dict[str, object]:
    """PTX and sizes of one kernel.

    Raises:
        RuntimeError: without Triton, or inside its interpreter.
    """
    if triton is None:
        raise RuntimeError("triton is not installed: nothing can be compiled")
    if INTERPRET:
        raise RuntimeError("TRITON_INTERPRET must be unset to compile")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    kernel, constants, warps, stages = cases()[name]
    names = kernel.arg_names
    if "DEPENDENT" in names:
        constants = constants | {"DEPENDENT": arch >= 90}
    signature = {each: "constexpr" if each in constants else _type(each) for each in names}
    aligned = [at for at, each in enumerate(names) if each.endswith("_ptr") or "stride" in each or each in SIZES]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(names.index(each),): value for each, value in constants.items()},
        attrs={(at,): [["tt.divisibility", 16]] for at in aligned},
    )
    built = compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps, "num_stages": stages})
    facts = {"kernel": name, "arch": arch, "warps": warps, "shared": built.metadata.shared}
    ptx = built.asm["ptx"]
    return facts | {"cubin": len(built.asm["cubin"]), "counts": counts(ptx), "ptx": ptx}


def counts(ptx: str) -> dict[str, int]:
    """How often each notable instruction stands in the text, those that are there."""
    found = {name: len(re.findall(rf"^\s*(?:@%?!?\w+ )?{re.escape(name)}\b", ptx, re.M)) for name in NOTABLE}
    return {name: count for name, count in found.items() if count}


def _type(name: str) -> str:
    return TYPES.get(name, "*bf16" if name.endswith("_ptr") else "i32")


if __name__ == "__main__":
    print(f"compiling for sm_{ARCH}", file=sys.stderr, flush=True)
    print(json.dumps(compiled(sys.argv[1])))
