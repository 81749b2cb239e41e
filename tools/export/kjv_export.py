#!/usr/bin/env python3
"""Export the trained model to `tests/models/kjv-3m`: the `.pte`, its tokenizer, and test cases by eager PyTorch.

The graph follows executorch's own MLX language-model examples: `mlx::rope`, `mlx::kv_cache_update` and
`mlx::custom_sdpa`, int4 weights in groups of 32, a dynamic number of tokens per call.  The expected outputs come from the
same module run eagerly; `check_file` then reads the packed weights out of the finished file, unpacks them with its own
arithmetic, and runs the plain training model over the whole text to see that the two agree.
"""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

import executorch.backends.mlx.custom_ops  # noqa: F401  (registers the mlx:: operators)
import numpy
import torch
from executorch.backends.mlx.llm.cache import KVCache
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn

from kjv_model import QUANT_GROUP, Config, Decoder
from lowering import Pte, lower, quiet, write_case, write_meta

PREFILL_CHUNK = 128
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")
PROMPTS = {
    "certain_man": {"prompt": "There was a certain man", "chunks": None, "decode": 64},
    "psalm_chunked": {
        "prompt": "Psalm 151\nThe LORD is my rock, and my salvation; I will not fear what man shall do",
        "chunks": 8,
        "decode": 8,
    },
}


class CachedDecoder(nn.Module):
    """`Decoder` with a key/value cache: forward(input_ids [1, S], cache_position [S]) -> logits [1, S, vocab]."""

    def __init__(self, decoder):
        super().__init__()
        self.config = config = decoder.config
        self.model = decoder.model
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight
        self.caches = nn.ModuleList(
            KVCache(
                max_batch_size=1,
                max_context_length=config.max_position_embeddings,
                n_heads=config.num_key_value_heads,
                head_dim=config.head_dim,
                enable_dynamic_shape=True,
            )
            for _ in range(config.num_hidden_layers)
        )

    def reset(self):
        """Forget the sequence."""
        for cache in self.caches:
            cache.k_cache.zero_()
            cache.v_cache.zero_()

    def attend(self, attention, cache, x, start):
        """One layer's self-attention over the cache; `start` is the first position of this call."""
        config = self.config
        q, k, v = attention.project(x)
        q = torch.ops.mlx.rope(q, config.head_dim, start, False, config.rope_theta, 1.0, None)
        k = torch.ops.mlx.rope(k, config.head_dim, start, False, config.rope_theta, 1.0, None)
        keys, values = cache.update(start, k, v)
        mixed = torch.ops.mlx.custom_sdpa(q, keys, values, start_pos=start, is_causal=True, scale=config.head_dim**-0.5)
        return attention.o_proj(mixed.transpose(1, 2).flatten(2))

    def forward(self, input_ids, cache_position):
        start = cache_position[0].item()
        torch._check(start >= 0)
        torch._check(start + input_ids.shape[1] <= self.config.max_position_embeddings)
        x = self.model.embed_tokens(input_ids)
        for layer, cache in zip(self.model.layers, self.caches, strict=True):
            x = x + self.attend(layer.self_attn, cache, layer.input_layernorm(x), start)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.lm_head(self.model.norm(x))


def quantize(model):
    """Put every matrix on the int4 grid that it was trained on; the tied pair stays tied."""
    from torchao.quantization import quantize_
    from torchao.quantization.granularity import PerGroup
    from torchao.quantization.quant_api import IntxWeightOnlyConfig
    from torchao.quantization.quant_primitives import MappingType

    config = IntxWeightOnlyConfig(
        weight_dtype=torch.int4,
        granularity=PerGroup(QUANT_GROUP),
        mapping_type=MappingType.SYMMETRIC_NO_CLIPPING_ERR,
    )
    quantize_(model, config, filter_fn=lambda module, name: isinstance(module, nn.Linear | nn.Embedding))
    model.lm_head.weight = model.model.embed_tokens.weight


def export(model):
    """Trace with a dynamic number of tokens and lower."""
    length = torch.export.Dim("length", max=PREFILL_CHUNK)
    example = {"input_ids": torch.zeros((1, 3), dtype=torch.long), "cache_position": torch.arange(3)}
    with torch.no_grad():
        exported = torch.export.export(
            model,
            args=(),
            kwargs=example,
            dynamic_shapes={"input_ids": {1: length}, "cache_position": {0: length}},
            strict=True,
        )
    config = model.config
    return lower(
        exported,
        {
            "get_max_ctx_len": config.max_position_embeddings,
            "get_max_seq_len": config.max_position_embeddings,
            "get_prefill_chunk_size": PREFILL_CHUNK,
            "get_vocab_size": config.vocab_size,
        },
    )


@torch.no_grad()
def run_case(model, prompt_ids, chunk, decode):
    """Prefill in chunks, then decode greedily; returns (steps, generated ids)."""
    model.reset()
    steps, generated, at = [], [], 0
    pending = [
        prompt_ids[start : start + (chunk or len(prompt_ids))] for start in range(0, len(prompt_ids), chunk or 512)
    ]
    while pending:
        ids = torch.tensor([pending.pop(0)])
        position = torch.arange(at, at + ids.shape[1])
        logits = model(ids, position)
        steps.append(((ids, position), (logits,)))
        at += ids.shape[1]
        if not pending and len(generated) <= decode:
            generated.append(int(logits[0, -1].argmax()))
            if len(generated) <= decode:
                pending.append([generated[-1]])
    return steps, generated


def top_gap(steps):
    """Smallest distance between the two best logits of a step's last row: what an engine's error must stay below."""
    best = [outputs[0][0, -1].topk(2).values for _, outputs in steps]
    return min(float(pair[0] - pair[1]) for pair in best)


def unpack(pte, name, rows, columns):
    """A weight matrix rebuilt from the packed words and scales in the file: (code - 8) * scale."""
    words = numpy.frombuffer(pte.constant(f"{name}.parametrizations.weight.original0_to_packed"), dtype="<u4").reshape(
        rows, columns // 8
    )
    codes = (words[:, :, None] >> numpy.arange(0, 32, 4, dtype=numpy.uint32)) & 15
    scales = numpy.frombuffer(pte.constant(f"{name}.parametrizations.weight.original1"), dtype="<f4").reshape(
        rows, columns // QUANT_GROUP
    )
    matrix = (codes.reshape(rows, -1, QUANT_GROUP).astype(numpy.float32) - 8) * scales[:, :, None]
    return torch.from_numpy(matrix.reshape(rows, columns))


def decoder_from_file(data, config):
    """The plain model with the weights that the `.pte` holds."""
    pte, decoder = Pte(data), Decoder(config)
    state = {}
    for name, value in decoder.state_dict().items():
        stem = name.removesuffix(".weight")
        if value.ndim == 2:
            state[name] = unpack(pte, stem, *value.shape)
        else:
            state[name] = torch.from_numpy(numpy.frombuffer(pte.constant(name), dtype="<f4").copy())
    decoder.load_state_dict(state)
    return decoder.eval()


@torch.no_grad()
def check_file(data, config, steps):
    """Largest difference between the expected logits and one uncached pass with the file's own weights."""
    ids = torch.cat([inputs[0] for inputs, _ in steps], dim=1)
    expected = torch.cat([outputs[0] for _, outputs in steps], dim=1)
    actual = decoder_from_file(data, config)(ids)
    if not torch.equal(actual.argmax(-1), expected.argmax(-1)):
        raise SystemExit("the file's weights do not predict the expected tokens")
    return (actual - expected).abs().max().item(), expected.abs().max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="the .safetensors of kjv_train.py")
    parser.add_argument("--tokenizer", type=Path, required=True, help="the tokenizer folder of kjv_tokenizer.py")
    parser.add_argument("--out", type=Path, required=True, help="model folder to write, tests/models/kjv-3m")
    args = parser.parse_args()
    quiet()
    report = json.loads(args.checkpoint.with_suffix(".json").read_text(encoding="utf-8"))
    config = Config(**report["config"])
    decoder = Decoder(config)
    decoder.load_state_dict(load_file(args.checkpoint))
    model = CachedDecoder(decoder).eval()
    quantize(model)
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    args.out.mkdir(parents=True, exist_ok=True)
    data = export(model)
    texts, cases = {}, {}
    for name, case in PROMPTS.items():
        prompt_ids = tokenizer.encode(case["prompt"]).ids
        steps, generated = run_case(model, prompt_ids, case["chunks"], case["decode"])
        difference, largest = check_file(data, config, steps)
        write_case(args.out / "cases" / name, steps)
        texts[name] = {
            "prompt": case["prompt"],
            "prompt_ids": prompt_ids,
            "generated_ids": generated,
            "text": tokenizer.decode(generated),
        }
        cases[name] = {
            "program": "model.pte",
            "method": "forward",
            "steps": len(steps),
            "note": f"prompt of {len(prompt_ids)} tokens"
            + (f" in chunks of {case['chunks']}" if case["chunks"] else "")
            + f", then {case['decode']} greedy decode steps",
            "uncached_max_abs_diff": difference,
            "max_abs": largest,
            "smallest_top_gap": top_gap(steps),
            "tolerance": {"rtol": 1e-3, "atol": 1e-3, "vs": "expected"},
        }
        print(name, json.dumps(texts[name]["text"]), f"differs by {difference:.2e} from an uncached pass")
    (args.out / "text.json").write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")
    for name in TOKENIZER_FILES:
        shutil.copy(args.tokenizer / name, args.out / name)
    meta = {
        "name": args.out.name,
        "architecture": "llama-style decoder, tools/export/kjv_model.py",
        "dtype": "fp32",
        "quantization": {"linear": "4w", "embedding": "4w", "group": QUANT_GROUP},
        "config": dataclasses.asdict(config),
        "parameters": report["parameters"],
        "max_ctx_len": config.max_position_embeddings,
        "prefill_chunk_size": PREFILL_CHUNK,
        "inputs": ["input_ids i64 [1,S]", "cache_position i64 [S]"],
        "outputs": ["logits f32 [1,S,vocab]"],
        "training": {key: value for key, value in report.items() if key not in ("config", "parameters")},
        "cases": cases,
    }
    write_meta(args.out, meta, data)
    print(f"{args.out / 'model.pte'}: {len(data)} bytes")


if __name__ == "__main__":
    main()
