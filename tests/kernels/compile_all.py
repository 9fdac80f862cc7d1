"""Compiles every Triton kernel to cubin without a GPU and prints one JSON line per kernel and architecture.

Runs in a process of its own (``TRITON_INTERPRET`` must be unset: the interpreter patches what the compiler needs).
"""

import json
import sys

import torch
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from kernels import (
    advance,
    decode,
    dequantise,
    filters,
    kv_format,
    penalties,
    prefill,
    products,
    quant_dot,
    quant_row,
    quant_words,
    rmsnorm,
    rope_kv,
    sampling,
    silu_mul,
    skinny,
    slices,
    staging,
)  # fmt: skip
from kernels.prefill import prefill_hopper
from kernels.quantise import FORMATS

ARCHITECTURES = (80, 90, 100)
HOPPER = 90
HEADS = {"GROUP": 4, "HEAD_DIM": 128, "DIM_PAD": 128, "BLOCK_SIZE": 16}
ODD_HEADS = {"GROUP": 7, "HEAD_DIM": 80, "DIM_PAD": 128, "BLOCK_SIZE": 24}
DECODE = {"GROUP_PAD": 16, "GROUP_POW": 4, "BLOCK_N": 64, "CHUNK": 8, "SPLIT": False, "FORMAT": "plain"}
DECODE |= {"DOT": tl.bfloat16, "AHEAD": True, "PTX": ""}
INT8, FP8 = (
    DECODE | {"FORMAT": name, "DOT": tl.float16, "PTX": kv_format.unpack_ptx(name)} for name in ("int8", "fp8")
)
SHARED = {"SPLIT": True, "AHEAD": False}
FP32_DECODE = DECODE | SHARED | {"DOT": tl.float32}
SCALES = dict.fromkeys(("k_scale_ptr", "v_scale_ptr"), "fp16")
WORDS = dict.fromkeys(("k_scale_ptr", "v_scale_ptr"), "i32")
PAIRS = WORDS | dict.fromkeys(("k_ptr", "v_ptr"), "i16")
ROPE = {"NUM_KV_HEADS": 8, "GROUP": 3, "HEAD_DIM": 80, "HALF_PAD": 64, "BLOCK_SIZE": 16, "NORM": True, "TOKENS": 4}
PREFILL = {"BLOCK_M": 128, "BLOCK_N": 64, "ROWS_PAD": 256, "UPCAST": False, "SCALED": False}
PREFILL_HOPPER = {"GROUP": 4, "HEAD_DIM": 128, "BLOCK_SIZE": 16, "ROWS_PAD": 32}
LARGE = {"HEAD_DIM": 256, "DIM_PAD": 256}
LINEAR = {"ROWS": 1, "K": 1024, "K_PAD": 1024, "NORM": True, "BIAS": False, "GATED": False, "RESIDUAL": False}
LINEAR |= {"BLOCK_N": 4}
AROUND = {"BIAS": False, "GATED": False, "RESIDUAL": False, "UPCAST": False}
PRODUCT = AROUND | {"K": 1024, "BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "SPLITS": 1, "STAGES": 6}
PRODUCT |= {"SPAN": 1024, "THREADS": 128}
SLICE = AROUND | {"K": 1024, "CHUNK": 1024, "SHARES": 4, "BLOCK_M": 8, "BLOCK_N": 16, "STAGES": 1, "SPAN": 1024}
SLICE |= {"NORM": True}
DRAW = {"LANE": 256, "DEPTH": 16, "LARGEST": 3.0e38, "FILTER": False}
ROW = {"K": 4096, "BLOCK_N": 8, "NORM": True, "BIAS": False, "GATED": False, "RESIDUAL": False}
TILE = {"BLOCK_M": 16, "BLOCK_N": 128, "STAGES": 3, "PARTIAL": True, "BIAS": False, "RESIDUAL": False, "EVEN": True}
SUM = {"SHARES": 8, "BIAS": False, "GATED": True, "RESIDUAL": False, "BLOCK": 512}
FP32_MODEL = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), "fp32")

# name: kernel, types of its pointers by parameter name (bf16 when absent), constants, warps, stages
CASES = {
    "rmsnorm": (rmsnorm._rmsnorm_kernel, {}, {"ADD": False, "ROWS": 4, "BLOCK": 1024}, 4, 3),
    "add_rmsnorm": (rmsnorm._rmsnorm_kernel, {}, {"ADD": True, "ROWS": 1, "BLOCK": 8192}, 8, 3),
    "silu_mul": (silu_mul._silu_mul_kernel, {}, {"BLOCK": 1024}, 4, 3),
    "linear": (skinny._linear_kernel, {}, LINEAR, 1, 3),
    "linear_gated": (skinny._linear_kernel, {}, LINEAR | {"GATED": True, "BLOCK_N": 1, "ROWS": 4}, 1, 3),
    "linear_down": (
        skinny._linear_kernel,
        {},
        LINEAR | {"K": 3072, "K_PAD": 4096, "NORM": False, "RESIDUAL": True, "BLOCK_N": 8},
        8,
        3,
    ),
    "product": (products._product_kernel, {}, PRODUCT, 4, 3),
    "product_split": (
        products._product_kernel,
        {},
        PRODUCT | {"K": 3072, "BLOCK_M": 32, "SPLITS": 4, "RESIDUAL": True, "SPAN": 768},
        4,
        3,
    ),
    "product_wide": (products._product_kernel, {}, PRODUCT | {"BLOCK_M": 64, "GATED": True, "STAGES": 5}, 4, 3),
    "product_narrow": (
        products._product_kernel,
        {},
        PRODUCT | {"K": 2048, "BLOCK_M": 64, "BLOCK_N": 32, "SPLITS": 4, "RESIDUAL": True, "SPAN": 512, "STAGES": 5},
        4,
        3,
    ),
    "slice": (slices._slice_kernel, {}, SLICE, 4, 3),
    "slice_gated": (slices._slice_kernel, {}, SLICE | {"GATED": True, "BIAS": True}, 4, 3),
    "slice_piped": (
        slices._slice_kernel,
        {},
        SLICE | {"K": 3072, "CHUNK": 512, "STAGES": 7, "SPAN": 2048, "NORM": False, "RESIDUAL": True},
        4,
        3,
    ),
    "rope_write_kv": (
        rope_kv._rope_write_kv_kernel,
        {"cos_sin_ptr": "fp32"},
        ROPE | {"LARGEST": 0.0},
        1,
        3,
    ),
    "rope_write_kv_int8": (
        rope_kv._rope_write_kv_kernel,
        {"cos_sin_ptr": "fp32"} | SCALES | dict.fromkeys(("k_cache_ptr", "v_cache_ptr"), "i8"),
        ROPE | {"LARGEST": 127.0},
        1,
        3,
    ),
    "rope_write_kv_fp8": (
        rope_kv._rope_write_kv_kernel,
        {"cos_sin_ptr": "fp32"} | SCALES | dict.fromkeys(("k_cache_ptr", "v_cache_ptr"), "fp8e4nv"),
        ROPE | {"LARGEST": 448.0},
        1,
        3,
    ),
    "decode": (decode._decode_kernel, {}, HEADS | DECODE | {"BLOCK_N": 32}, 4, 4),
    "decode_split": (decode._decode_kernel, {}, HEADS | DECODE | SHARED, 2, 3),
    "decode_odd": (decode._decode_kernel, {}, DECODE | ODD_HEADS | SHARED | {"GROUP_POW": 8, "CHUNK": 4}, 2, 3),
    "decode_large": (decode._decode_kernel, {}, HEADS | DECODE | SHARED | LARGE | {"BLOCK_N": 32, "CHUNK": 4}, 4, 3),
    "decode_fp32": (decode._decode_kernel, FP32_MODEL, HEADS | FP32_DECODE, 4, 3),
    "decode_fp32_large": (decode._decode_kernel, FP32_MODEL, HEADS | FP32_DECODE | LARGE | {"BLOCK_N": 32}, 8, 2),
    "decode_int8": (decode._decode_kernel, PAIRS, HEADS | INT8, 2, 3),
    "decode_int8_odd": (decode._decode_kernel, PAIRS, INT8 | ODD_HEADS | {"GROUP_POW": 8, "SPLIT": True}, 2, 3),
    "decode_fp8": (decode._decode_kernel, PAIRS, HEADS | FP8 | {"SPLIT": True}, 2, 3),
    "decode_fp8_large": (decode._decode_kernel, PAIRS, HEADS | FP8 | LARGE | {"BLOCK_N": 32, "CHUNK": 4}, 4, 3),
    "prefill_fp32": (
        prefill._prefill_kernel,
        FP32_MODEL,
        HEADS | PREFILL | LARGE | {"BLOCK_M": 32, "BLOCK_N": 32},
        8,
        2,
    ),
    "prefill": (prefill._prefill_kernel, {}, HEADS | PREFILL, 8, 3),
    "prefill_int8": (
        prefill._prefill_kernel,
        SCALES | dict.fromkeys(("k_ptr", "v_ptr"), "i8"),
        HEADS | PREFILL | {"SCALED": True},
        8,
        3,
    ),
    "prefill_odd": (prefill._prefill_kernel, {}, ODD_HEADS | PREFILL, 8, 3),
    "prefill_large": (prefill._prefill_kernel, {}, HEADS | PREFILL | LARGE | {"BLOCK_N": 32}, 8, 2),
    "pivots": (filters._pivots_kernel, {}, {"SHIFT": 16, "BLOCK": 2048}, 8, 3),
    "pivots_fp32": (filters._pivots_kernel, {"logits_ptr": "fp32"}, {"SHIFT": 0, "BLOCK": 2048}, 8, 3),
    "sample": (sampling._sample_kernel, {}, DRAW | {"FILTER": True}, 1, 3),
    "sample_plain": (sampling._sample_kernel, {}, DRAW, 1, 3),
    "member": (sampling._member_kernel, {"out_ptr": "i32"}, DRAW | {"FILTER": True, "SPANS_PAD": 64}, 4, 3),
    "penalties": (penalties._penalties_kernel, {"logits_ptr": "fp32"}, {"BLOCK": 1024}, 4, 3),
    "open_step": (
        advance._open_kernel,
        {"change_ptr": "i32"},
        {"TIMED": True, "CHANGES_AT": 4, "CHANGE_WORDS": 3, "BLOCK": 256},
        4,
        3,
    ),
    "close_step": (
        advance._close_kernel,
        dict.fromkeys(("id_ptr", "sample_ptr", "change_ptr", "outbox_ptr"), "i32"),
        {"TIMED": True, "IDS_AT": 4, "BLOCK": 256},
        4,
        3,
    ),
    "fetch_seats": (
        staging._fetch_kernel,
        {"seed_ptr": "i64", "out_seed_ptr": "i64", "out_table_ptr": "i32", "out_temperature_ptr": "fp32"},
        {"BLOCK": 256},
        4,
        3,
    ),
    "stage": (staging._stage_kernel, {"id_ptr": "i32"}, {"BLOCK_SIZE": 16, "HALVINGS": 9, "BLOCK": 128}, 4, 3),
}
HOPPER_CASES = {  # of ``prefill_hopper``, name: what differs from PREFILL_HOPPER
    "prefill_hopper": {},
    "prefill_hopper_odd": {"GROUP": 7, "HEAD_DIM": 80, "BLOCK_SIZE": 24, "ROWS_PAD": 512},
    "prefill_hopper_large": {"HEAD_DIM": 256, "BLOCK_SIZE": 256},
}


def quant_cases(form: str) -> dict[str, tuple]:
    """The kernels of one weight format."""
    words = {"words_ptr": "i16", "scale_ptr": "bf16" if form == "int4" else "fp32"}
    runs = {"RUNS": 4096 // (256 if form == "int4" else 128)}
    row = ROW | runs | {"FORM": form, "ASM": quant_row.NUMBERS[form], "RUNS_PAD": runs["RUNS"]}
    fields = {"FORM": form, "ASM": quant_words.FIELDS[form, torch.bfloat16]}
    tile = words | {"y_ptr": "fp32"}
    return {
        f"row_{form}": (quant_row._row_product_kernel, words | {"words_ptr": "i32"}, row, 4, 3),
        f"row_gated_{form}": (
            quant_row._row_product_kernel,
            words | {"words_ptr": "i32"},
            row | {"GATED": True, "BLOCK_N": 4},
            4,
            3,
        ),
        f"tile_{form}": (quant_dot._tile_product_kernel, tile, TILE | fields | {"UPCAST": False}, 4, 3),
        f"dequantise_{form}": (dequantise._dequantise_kernel, words, fields | {"RUNS": 4}, 4, 3),
    }


CASES |= {"quant_sum": (quant_dot._sum_products_kernel, {}, SUM, 4, 3)}
for form in FORMATS:
    CASES |= quant_cases(form)
FP32 = {
    "temperature_ptr", "top_p_ptr", "min_p_ptr", "pivot_ptr", "score_ptr", "partial_ptr", "lse_ptr",
    "repetition_ptr", "presence_ptr", "frequency_ptr",
}  # fmt: skip
INT32 = {
    "table_ptr", "query_start_ptr", "context_ptr", "position_ptr", "top_k_ptr", "token_ptr", "count_ptr",
    "row_ptr", "start_ptr", "slot_ptr", "seat_ptr", "last_ptr", "arrived_ptr",
}  # fmt: skip
SIZES = (
    "hidden",
    "width",
    "vocab",
    "outputs",
    "inputs",
    "products",
)  # multiples of 16 in real models: loads of 16 bytes depend on it
OTHER = {
    "seed_ptr": "i64",
    "stamp_ptr": "i64",
    "cursor_ptr": "i32",
    "prompt_ptr": "i8",
    "eps": "fp32",
    "scale_log2": "fp32",
}


def type_of(name: str, pointers: dict[str, str], constants: dict[str, object]) -> str:
    """Signature entry of a kernel parameter."""
    if name in constants:
        return "constexpr"
    if not name.endswith("_ptr"):
        return OTHER.get(name, "i32")
    default = "fp32" if name in FP32 else "i32" if name in INT32 else OTHER.get(name, "bf16")
    return f"*{pointers.get(name, default)}"


def aligned(names: list[str], signature: dict[str, str]) -> dict[tuple[int], list]:
    """Pointers, strides and sizes are multiples of 16, as in a real launch."""
    found = [i for i, p in enumerate(names) if p.endswith("_ptr") or "stride" in p or p in SIZES]
    return {(i,): [["tt.divisibility", 16]] for i in found if signature[names[i]] != "constexpr"}


def compile_case(name: str, arch: int) -> dict[str, object]:
    """Shared memory and cubin size of one case, or the error that the compiler raised."""
    kernel, pointers, constants, warps, stages = CASES[name]
    if "DEPENDENT" in kernel.arg_names:
        constants = constants | {"DEPENDENT": arch >= 90}
    signature = {p: type_of(p, pointers, constants) for p in kernel.arg_names}
    values = {(kernel.arg_names.index(k),): v for k, v in constants.items()}
    attributes = aligned(kernel.arg_names, signature)
    source = ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=attributes)
    return build(source, arch, {"num_warps": warps, "num_stages": stages})


def compile_hopper(name: str) -> dict[str, object]:
    """The same for a case of the Gluon kernel, with the descriptors that its launcher makes."""
    from triton.experimental.gluon._runtime import GluonASTSource

    kernel, constants = prefill_hopper._prefill_hopper_kernel, PREFILL_HOPPER | HOPPER_CASES[name]
    constants |= dict(zip(("BLOCK_N", "STAGES"), prefill_hopper.tile(constants["HEAD_DIM"])))
    box = prefill_hopper.box(constants["HEAD_DIM"], constants["BLOCK_SIZE"])
    desc = f"tensordesc<bf16{box},{prefill_hopper.LAYOUT!r}>"
    signature = {p: desc if p.endswith("_desc") else type_of(p, {}, constants) for p in kernel.arg_names}
    values = {(kernel.arg_names.index(k),): v for k, v in constants.items()}
    attributes = aligned(kernel.arg_names, signature)
    source = GluonASTSource(fn=kernel, signature=signature, constexprs=values, attrs=attributes)
    return build(source, HOPPER, {"num_warps": prefill_hopper.WARPS})


def build(source: ASTSource, arch: int, options: dict[str, int]) -> dict[str, object]:
    """What came out of the compiler."""
    try:
        built = compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"shared": built.metadata.shared, "cubin": len(built.asm["cubin"])}


def targets(case: str) -> tuple[int, ...]:
    """Compute capabilities that a case is compiled for: the conversion to e4m3 exists from 8.9."""
    return (89, 90, 100) if "_fp8" in case else ARCHITECTURES


if __name__ == "__main__":
    for case in sys.argv[1:] or (*CASES, *(HOPPER_CASES if prefill_hopper else ())):
        for target in (HOPPER,) if case in HOPPER_CASES else targets(case):
            result = compile_hopper(case) if case in HOPPER_CASES else compile_case(case, target)
            print(json.dumps({"kernel": case, "arch": target, **result}), flush=True)
