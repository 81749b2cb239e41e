#!/usr/bin/env python3
"""Export a Hugging Face language-model checkpoint on disk to a `.pte` lowered by executorch's MLX delegate.

    python export_llm.py --checkpoint DIR --quant 4w --out model.pte

DIR is a folder with `config.json` and `*.safetensors` weights, as transformers saves it.  The lowering is the one that
executorch's own language-model example uses: its attention operator, its key/value cache, torchao's weight-only
quantization.  The program takes `input_ids i64 [1, S]` and `cache_position i64 [S]` (the absolute positions of these
tokens) and gives logits [1, S, vocab], for any S from 1 to the prefill chunk.  Nothing is downloaded.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import time
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

DEFAULT_CTX, DEFAULT_CHUNK = 1024, 128
SIDE_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
)


class UserError(Exception):
    """Something about the request or the checkpoint that its owner can change."""


def parse_arguments(argv):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="checkpoint folder")
    parser.add_argument("--out", type=Path, required=True, help="the .pte to write")
    parser.add_argument("--quant", choices=("none", "4w", "8w"), default="4w", help="weights of linear layers")
    parser.add_argument(
        "--embedding-quant", choices=("none", "4w", "8w"), help="weights of the embedding (default: as --quant)"
    )
    parser.add_argument("--group-size", type=int, choices=(32, 64, 128), help="quantization group (default: 32)")
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="bf16", help="activations and scales")
    parser.add_argument("--max-ctx", type=int, help="tokens that the key/value cache holds (default: 1024 or fewer)")
    parser.add_argument("--prefill-chunk", type=int, help="most tokens in one call (default: 128 or fewer)")
    parser.add_argument(
        "--off-graph-cache", action="store_true", help="leave the key/value cache to the runtime (UpdateAndAttend)"
    )
    parser.add_argument("--no-tokenizer", action="store_true", help="do not copy tokenizer files beside the .pte")
    parser.add_argument("--verbose", action="store_true", help="show what executorch logs")
    return parser.parse_args(argv)


def read_config(folder):
    """The checkpoint's `config.json`, after checking that the folder is a checkpoint that can be exported."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give the folder that holds config.json and the weights")
    path = folder / "config.json"
    if not path.is_file():
        if list(folder.glob("*.gguf")):
            raise UserError(f"{folder} holds GGUF files; this script takes a Hugging Face checkpoint (config.json)")
        raise UserError(f"{folder} has no config.json, so it is not a Hugging Face checkpoint")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    if "quantization_config" in config:
        method = config["quantization_config"].get("quant_method", "some method")
        raise UserError(f"the checkpoint is already quantized ({method}); export the unquantized one")
    if "auto_map" in config:
        raise UserError("the checkpoint brings Python code of its own (auto_map); this script does not run it")
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if not weights:
        raise UserError(f"{folder} has no *.safetensors weights")
    for index in folder.glob("*.safetensors.index.json"):
        shards = set(json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values())
        missing = sorted(name for name in shards if not (folder / name).is_file())
        if missing:
            raise UserError(f"weights are missing: {index.name} names {', '.join(missing)}")
    return config


def settle_sizes(args, text):
    """Fill in the sizes left open, and refuse those that the model cannot honour; `text` is the language model's config."""
    limit = text.get("max_position_embeddings")
    if args.max_ctx is None:
        args.max_ctx = min(DEFAULT_CTX, limit or DEFAULT_CTX)
    if limit is not None and args.max_ctx > limit:
        raise UserError(f"--max-ctx {args.max_ctx} is more than the model's {limit} positions")
    if args.max_ctx < 2:
        raise UserError(f"--max-ctx {args.max_ctx} is too small; it must be at least 2")
    window = text.get("sliding_window") if text.get("use_sliding_window", True) else None
    most = min(args.max_ctx, window or args.max_ctx)
    if args.prefill_chunk is None:
        args.prefill_chunk = min(DEFAULT_CHUNK, most)
    if not 1 < args.prefill_chunk <= most:
        reason = "the sliding window" if window == most else "--max-ctx"
        raise UserError(f"--prefill-chunk {args.prefill_chunk} must be from 2 to {most} ({reason})")


def check_request(args, config):
    """Refuse what the export could not honour, and say what would do."""
    if args.out.suffix != ".pte":
        raise UserError(f"--out should end in .pte, not {args.out.name}")
    if args.out.is_dir():
        raise UserError(f"--out {args.out} is a folder")
    text = config.get("text_config", config)
    settle_sizes(args, text)
    group = args.group_size or 32
    if set(quantization(args)) != {None}:
        for name in ("hidden_size", "intermediate_size"):
            size = text.get(name)
            if isinstance(size, int) and size % group:
                raise UserError(f"the model's {name} {size} is no multiple of the quantization group {group}")


def import_lowering(verbose):
    """Import executorch's exporter, with a hint when the installation is incomplete."""
    if not verbose:
        logging.disable(logging.WARNING)
        warnings.filterwarnings("ignore")
    try:
        from executorch.backends.mlx.examples.llm import export_llm_hf
    except ModuleNotFoundError as error:
        if "mlx" in (error.name or ""):
            raise UserError("executorch lacks generated files: run prepare_executorch.py once") from None
        raise UserError(f"{error}; install requirements.txt") from None
    return export_llm_hf


def quantization(args):
    """Upstream's names for what was asked: (linear, embedding), None for unquantized."""
    embedding = args.quant if args.embedding_quant is None else args.embedding_quant
    return tuple(None if name == "none" else name for name in (args.quant, embedding))


def export_in_graph(upstream, args, config):
    """Trace with the cache inside the program and lower; returns the bytes."""
    from lowering import lower

    linear, embedding = quantization(args)
    exported, chunk = upstream.build_hf_exported_program(
        model_id=str(args.checkpoint),
        revision=None,
        max_ctx_len=args.max_ctx,
        dtype=args.dtype,
        qlinear=linear,
        qembedding=embedding,
        use_custom_sdpa=True,
        use_custom_kv_cache=True,
        qlinear_group_size=args.group_size if linear else None,
        qembedding_group_size=args.group_size if embedding else None,
        prefill_chunk_size=args.prefill_chunk,
    )
    constants = {
        "get_max_ctx_len": args.max_ctx,
        "get_max_seq_len": args.max_ctx,
        "get_prefill_chunk_size": chunk,
    }
    vocabulary = config.get("text_config", config).get("vocab_size")
    if vocabulary:
        constants["get_vocab_size"] = vocabulary
    return lower(exported, constants)


def export_off_graph(upstream, args):
    """Export with the runtime's cache, wholly by upstream's function; returns the bytes."""
    linear, embedding = quantization(args)
    upstream.export_llama_hf(
        model_id=str(args.checkpoint),
        revision=None,
        output_path=str(args.out),
        max_ctx_len=args.max_ctx,
        dtype=args.dtype,
        qlinear=linear,
        qembedding=embedding,
        use_offgraph_cache=True,
        qlinear_group_size=args.group_size if linear else None,
        qembedding_group_size=args.group_size if embedding else None,
        prefill_chunk_size=args.prefill_chunk,
    )
    return args.out.read_bytes()


def copy_side_files(folder, out):
    """Put the tokenizer files beside the program unless files of those names are there; returns what was copied."""
    copied = []
    for name in SIDE_FILES:
        source, target = folder / name, out.parent / name
        if source.is_file() and not target.exists():
            shutil.copy(source, target)
            copied.append(name)
    return copied


def report(data):
    """Print what the program holds, and warn of what it leaves to other kernels."""
    from lowering import Pte

    pte = Pte(data)
    for delegate in pte.op_counts():
        counts = ", ".join(f"{name.removesuffix('Node')} {count}" for name, count in delegate["nodes"].items())
        print(f"{sum(delegate['instructions_per_chain'])} instructions: {counts}")
    others = {name for name in pte.kernel_calls() if name not in ("aten::copy_", "aten::gather.out")}
    if len(pte.plan()["delegates"]) != 1 or others:
        print(f"warning: not all of the model was lowered; left outside the delegate: {', '.join(sorted(others))}")


def run(args):
    """Check, export, write, report."""
    config = read_config(args.checkpoint)
    check_request(args, config)
    upstream = import_lowering(args.verbose)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    began = time.time()
    try:
        data = export_off_graph(upstream, args) if args.off_graph_cache else export_in_graph(upstream, args, config)
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError, AssertionError) as error:
        if args.verbose:
            raise
        kind = (config.get("architectures") or [config.get("model_type", "this model")])[0]
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{kind} could not be exported: {first} (--verbose shows the whole error)") from None
    args.out.write_bytes(data)
    report(data)
    copied = [] if args.no_tokenizer else copy_side_files(args.checkpoint, args.out)
    if copied:
        print(f"copied beside it: {', '.join(copied)}")
    print(f"{args.out}: {len(data)} bytes in {time.time() - began:.0f} s")


def main(argv=None):
    args = parse_arguments(argv)
    try:
        run(args)
    except UserError as error:
        sys.exit(f"export_llm: {error}")


if __name__ == "__main__":
    main()
