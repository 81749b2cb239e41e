#!/usr/bin/env python3
"""Export the small test programs under `tests/models`: weights from a fixed seed, expected outputs by eager PyTorch.

Every fixture is one folder with `model.pte`, `meta.json` and `cases/NAME/step_NNN_{input,expected}.bin`; the steps of a
case run in order on one session that starts from zeroed state.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import torch
from torch.export import Dim

import fixture_models as models
from lowering import describe, lower, quiet, write_case, write_meta

SEED = 1611
LARGEST = 100_000


@dataclasses.dataclass
class Fixture:
    """One program: its model, the traced example, its dynamic dimensions, and the inputs of each step of each case."""

    model: Callable
    example: tuple
    cases: dict
    dynamic: tuple | None = None
    must_hold: tuple = ()
    note: str = ""


def floats(*shape):
    """Normal random numbers."""
    return torch.randn(*shape)


def integer(value):
    """A one-element int64 tensor."""
    return torch.tensor([value])


def nested_if():
    """Every leaf of the tree, in one session."""
    flags = [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1), (-3, 7, 1), (0, 0, 0)]
    steps = [(floats(2, 16), floats(2, 16), *map(integer, flag)) for flag in flags]
    return Fixture(
        models.NestedIf,
        steps[0],
        {"all_leaves": steps},
        must_hold=("IfNode",),
        note="IF nested three deep, by an operator of our own (tools/export/fixture_ops.py)",
    )


def moe_if():
    """Row counts on both sides of the delegate's sort threshold."""
    return Fixture(
        models.Experts,
        (floats(4, 16),),
        {"both_branches": [(floats(rows, 16),) for rows in (1, 3, 4, 7, 2)]},
        dynamic=({0: Dim("rows", min=1, max=8)},),
        must_hold=("IfNode", "GatherMmNode"),
        note="IF as the delegate itself emits it, chosen by the number of rows",
    )


def sample_if():
    """Greedy by temperature 0, and greedy by top_k 1 through the random branch."""

    def step(temperature, top_k):
        return (
            floats(1, 48),
            torch.tensor(temperature),
            torch.tensor(top_k),
            torch.tensor(0.9),
            torch.tensor(20),
        )

    return Fixture(
        models.SampleHead,
        step(1.0, 1),
        {"temperature_zero": [step(0.0, 48), step(0.0, 5)], "top_k_one": [step(0.8, 1), step(2.0, 1)]},
        must_hold=("IfNode", "RandomBitsNode"),
        note="the delegate's sampling head; with top_k 1 its random branch has one possible answer",
    )


def scan_delta():
    """Several lengths, the state carried from call to call."""
    return Fixture(
        models.DeltaScan,
        (floats(1, 3, 32),),
        {"carried_state": [(floats(1, length, 32),) for length in (5, 1, 7, 1, 12)]},
        dynamic=({1: Dim("steps", min=1, max=16)},),
        must_hold=("ScanNode",),
        note="SCAN over a dynamic number of steps with a carried, persistent state",
    )


def full_sum():
    """FULL whose size is the input's, reduced by SUM."""
    return Fixture(
        models.FullSum,
        (floats(3, 8),),
        {"rows": [(floats(rows, 8),) for rows in (1, 2, 5, 16)]},
        dynamic=({0: Dim("rows", min=1, max=16)},),
        must_hold=("FullNode", "SumNode"),
    )


def vision_block():
    """One image at a time."""
    return Fixture(
        models.VisionBlock,
        (floats(1, 3, 32, 32),),
        {"images": [(floats(1, 3, 32, 32),) for _ in range(2)]},
        must_hold=("Conv2DNode", "SdpaNode", "LayerNormNode"),
    )


def encoder_block():
    """Whole and padded inputs of several lengths."""

    def step(length, used):
        mask = (torch.arange(length) < used).long()[None]
        return torch.randint(1, 96, (1, length)) * mask, mask

    length = Dim("length", min=1, max=32)
    return Fixture(
        models.Encoder,
        step(7, 5),
        {"whole": [step(1, 1), step(12, 12)], "padded": [step(9, 6), step(32, 20)]},
        dynamic=({1: length}, {1: length}),
        must_hold=("SdpaNode",),
    )


def decoder_chunked():
    """Chunks of up to four tokens, past the window, then single tokens."""

    def steps(lengths):
        at, found = 0, []
        for length in lengths:
            found.append((torch.randint(64, (1, length)), torch.arange(at, at + length)))
            at += length
        return found

    length = Dim("length", min=1, max=models.ChunkedDecoder.chunk)
    return Fixture(
        models.ChunkedDecoder,
        (torch.zeros((1, 3), dtype=torch.long), torch.arange(3)),
        {"chunks_then_tokens": steps([4, 4, 3, 4, 1, 1, 1, 2, 4, 1]), "tokens": steps([1] * 14)},
        dynamic=({1: length}, {0: length}),
        must_hold=("SliceUpdateNode", "SdpaNode", "RopeNode"),
        note="plain cache of 32 and ring cache with a window of 8 (ring of 11)",
    )


def two_delegates():
    """Values pass from one delegate to a kernel and on to another delegate."""
    return Fixture(
        models.TwoDelegates,
        (floats(3, 8), torch.zeros((3, 4), dtype=torch.long)),
        {"gather": [(floats(3, 8), torch.randint(16, (3, 4))) for _ in range(2)]},
        note="two delegates with aten::gather.out between them",
    )


FIXTURES = {
    "if-nested": nested_if,
    "if-experts": moe_if,
    "if-sample": sample_if,
    "scan-delta": scan_delta,
    "full-sum": full_sum,
    "vision-block": vision_block,
    "encoder-block": encoder_block,
    "decoder-chunked": decoder_chunked,
    "two-delegates": two_delegates,
}


@torch.no_grad()
def run_cases(model, cases):
    """The eager outputs of every step."""
    results = {}
    for name, inputs in cases.items():
        if hasattr(model, "reset"):
            model.reset()
        outputs = [model(*step) for step in inputs]
        results[name] = [
            (step, output if isinstance(output, tuple) else (output,))
            for step, output in zip(inputs, outputs, strict=True)
        ]
    if hasattr(model, "reset"):
        model.reset()
    return results


def check(name, fixture, data):
    """Fail unless the program has the ops it is there for and is small enough to ship."""
    delegates = describe(data)["methods"]["forward"]["delegates"]
    held = {op for delegate in delegates for op in delegate["nodes"]}
    missing = [op for op in fixture.must_hold if op not in held]
    if missing:
        raise SystemExit(f"{name}: the program holds no {', '.join(missing)}; it holds {', '.join(sorted(held))}")
    if "MetalKernelNode" in held:
        raise SystemExit(f"{name}: the program holds Metal source")
    if len(data) > LARGEST:
        raise SystemExit(f"{name}: {len(data)} bytes, more than {LARGEST}")


def make(name, out):
    """Export one fixture and write its folder."""
    torch.manual_seed(SEED)
    fixture = FIXTURES[name]()
    model = fixture.model().eval()
    results = run_cases(model, fixture.cases)
    with torch.no_grad():
        exported = torch.export.export(model, fixture.example, dynamic_shapes=fixture.dynamic, strict=True)
    data = lower(exported)
    check(name, fixture, data)
    for case, steps in results.items():
        write_case(out / name / "cases" / case, steps)
    meta = {
        "name": name,
        "architecture": (fixture.model.__doc__ or "").strip(),
        "dtype": "fp32",
        "quantization": None,
        "note": fixture.note,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seed": SEED,
        "cases": {
            case: {
                "program": "model.pte",
                "method": "forward",
                "steps": len(steps),
                "tolerance": {"rtol": 1e-4, "atol": 1e-4, "vs": "expected"},
            }
            for case, steps in results.items()
        },
    }
    write_meta(out / name, meta, data)
    print(f"{name}: {len(data)} bytes, {[d['nodes'] for d in describe(data)['methods']['forward']['delegates']]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of model folders, tests/models")
    parser.add_argument("names", nargs="*", help=f"which ones (default: all): {', '.join(FIXTURES)}")
    args = parser.parse_args()
    quiet()
    unknown = set(args.names) - set(FIXTURES)
    if unknown:
        parser.error(f"no fixture is called {', '.join(sorted(unknown))}")
    for name in args.names or FIXTURES:
        make(name, args.out)


if __name__ == "__main__":
    main()
