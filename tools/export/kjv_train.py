#!/usr/bin/env python3
"""Train the shipped model on the token files of `kjv_tokenizer.py`.

A run is repeatable from its seed on one machine as long as `--seconds` does not cut it short.

The first part of the run is ordinary training; for the last `--round-from` share of it the forward pass sees weights
rounded to int4, so that the exported int4 model loses next to nothing.  The checkpoint kept is the one with the lowest
validation loss among those of the second part; its weights are stored already rounded.  Losses are means over all tokens
in non-overlapping windows of the full context, in nats per token.  Writes `NAME.safetensors` and `NAME.json`.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from kjv_model import Config, Decoder

BOS_ID = 0


def read_ids(path):
    """One encoded split as an int64 tensor."""
    return torch.from_numpy(numpy.fromfile(path, dtype="<u2").astype(numpy.int64))


def make_batch(ids, line_starts, batch, length, generator):
    """Windows of `length + 1` ids: half from anywhere, half from the start of a line, led by the bos token.

    The second half teaches the model that a text may begin with any verse, as a prompt does.
    """
    anywhere = torch.randint(len(ids) - length - 1, (batch - batch // 2,), generator=generator)
    lines = line_starts[torch.randint(len(line_starts), (batch // 2,), generator=generator)]
    windows = torch.cat([anywhere, lines])[:, None] + torch.arange(length + 1)
    rows = ids[windows]
    rows[len(anywhere) :, 0] = BOS_ID
    return rows


@torch.no_grad()
def mean_loss(model, ids, length, device):
    """Nats per token over a whole split."""
    model.eval()
    usable = (len(ids) - 1) // length * length
    inputs, targets = ids[:usable].view(-1, length), ids[1 : usable + 1].view(-1, length)
    total = 0.0
    for start in range(0, len(inputs), 16):
        logits = model(inputs[start : start + 16].to(device))
        total += F.cross_entropy(
            logits.flatten(0, 1).float(), targets[start : start + 16].flatten().to(device), reduction="sum"
        ).item()
    model.train()
    return total / usable


def unigram_entropy(train, held_out, vocab):
    """Cross entropy of the held-out split under the training split's (add-one smoothed) token frequencies."""
    counts = torch.bincount(train, minlength=vocab).double() + 1
    return -(counts / counts.sum()).log()[held_out].mean().item()


def make_optimizer(model, rate, decay, fused):
    """AdamW that decays matrices only."""
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=fused)


def learning_rate(done, peak, warmup=0.025):
    """Linear warm-up, then a cosine down to 2 % of the peak; `done` is the share of the run behind us."""
    if done < warmup:
        return peak * (done + 1e-3) / warmup
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (done - warmup) / (1 - warmup))))


def train(args, splits, device):
    """Run the training loop; returns the best rounded state, its validation loss and the step it is from."""
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    config = Config(intermediate_size=args.ffn, num_hidden_layers=args.layers)
    model = Decoder(config, args.dropout).to(device)
    optimizer = make_optimizer(model, args.rate, args.decay, device == "cuda")
    ids, length = splits["train"], config.max_position_embeddings
    line_starts = (ids[: -length - 1] == args.newline).nonzero().flatten()
    best_loss, best_state, best_step = math.inf, None, -1
    began = time.time()
    model.train()
    for step in range(args.steps):
        done = max(step / args.steps, (time.time() - began) / args.seconds)
        if done >= 1:
            break
        if done >= 1 - args.round_from and not model.model.embed_tokens.rounding:
            model.set_rounding(True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(done, args.rate)
        rows = make_batch(ids, line_starts, args.batch, length, generator).to(device)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % args.every and step + 1 != args.steps:
            continue
        held = mean_loss(model, splits["validation"], length, device)
        rounding = model.model.embed_tokens.rounding
        print(
            f"{args.name} step {step + 1} train {loss.item():.4f} validation {held:.4f} "
            f"{'int4' if rounding else 'f32'} {time.time() - began:.0f} s",
            flush=True,
        )
        if rounding and held < best_loss:
            best_loss, best_step = held, step + 1
            best_state = {name: value.cpu().contiguous() for name, value in model.rounded_state().items()}
    return config, best_state, best_loss, best_step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=Path, required=True, help="folder of train.bin, validation.bin and test.bin")
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint")
    parser.add_argument("--name", default="kjv", help="name of the two files written")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="shorten the schedule to end by then")
    parser.add_argument("--every", type=int, default=250, help="steps between validations")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--ffn", type=int, default=640)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--round-from", type=float, default=0.3, help="share of the steps that see int4 weights")
    parser.add_argument("--newline", type=int, default=200, help="token id of the newline")
    parser.add_argument("--seed", type=int, default=1611)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    splits = {name: read_ids(args.ids / f"{name}.bin") for name in ("train", "validation", "test")}
    began = time.time()
    config, state, validation, step = train(args, splits, device)
    seconds = time.time() - began
    if state is None:
        sys.exit("no step saw rounded weights: give more --steps or a larger --round-from")
    model = Decoder(config).to(device)
    model.load_state_dict(state)
    length = config.max_position_embeddings
    report = {
        "config": dataclasses.asdict(config),
        "parameters": sum(value.numel() for value in state.values()),
        "arguments": {key: value for key, value in vars(args).items() if key not in ("ids", "out")},
        "best_step": step,
        "validation_loss": validation,
        "test_loss": mean_loss(model, splits["test"], length, device),
        "unigram_entropy_test": unigram_entropy(splits["train"], splits["test"], config.vocab_size),
        "train_seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    save_file(state, args.out / f"{args.name}.safetensors")
    (args.out / f"{args.name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
