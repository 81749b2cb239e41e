#!/usr/bin/env python3
"""Write the shipped model as a Hugging Face Llama checkpoint folder, from the weights inside its `.pte`."""

import argparse
import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from kjv_export import TOKENIZER_FILES, decoder_from_file
from kjv_model import Config
from kjv_tokenizer import BOS_ID, EOS_ID


def hf_config(config):
    """The `config.json` of a `LlamaForCausalLM` with these sizes."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "max_position_embeddings": config.max_position_embeddings,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
    }


def write_checkpoint(model_folder, out):
    """Write `config.json`, `model.safetensors` and the tokenizer files."""
    meta = json.loads((model_folder / "meta.json").read_text(encoding="utf-8"))
    config = Config(**meta["config"])
    decoder = decoder_from_file((model_folder / "model.pte").read_bytes(), config)
    out.mkdir(parents=True, exist_ok=True)
    state = {name: value.contiguous() for name, value in decoder.state_dict().items()}
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(hf_config(config), indent=1) + "\n", encoding="utf-8")
    for name in TOKENIZER_FILES:
        shutil.copy(model_folder / name, out / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="tests/models/kjv-3m")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    args = parser.parse_args()
    write_checkpoint(args.model, args.out)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
