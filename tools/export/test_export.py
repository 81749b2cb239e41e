#!/usr/bin/env python3
"""Tests of the export scripts: `python -m unittest test_export` in the environment that README.md sets up."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

import kjv_to_hf
from lowering import Pte, read_tensors, write_tensors

HERE = Path(__file__).resolve().parent
SHIPPED = HERE.parent.parent / "tests" / "models" / "kjv-3m"
QWEN3 = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}


def run_script(*arguments):
    """Run `export_llm.py` as a user would."""
    command = [sys.executable, str(HERE / "export_llm.py"), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def save_qwen3(folder, **changes):
    """A random-weight Qwen3 checkpoint."""
    torch.manual_seed(7)
    model = Qwen3ForCausalLM(Qwen3Config(**{**QWEN3, **changes}))
    model.save_pretrained(folder)
    return model


def unpack_bf16(pte, stem, rows, columns, group=32):
    """A 4-bit matrix of a bf16 program, from the packed words and scales in the file."""
    words = numpy.frombuffer(pte.constant(f"{stem}.parametrizations.weight.original0_to_packed"), dtype="<u4")
    codes = (words.reshape(rows, -1, 1) >> numpy.arange(0, 32, 4, dtype=numpy.uint32)) & 15
    raw = bytearray(pte.constant(f"{stem}.parametrizations.weight.original1"))
    scales = torch.frombuffer(raw, dtype=torch.bfloat16).float().reshape(rows, -1, 1)
    codes = torch.from_numpy(codes.astype(numpy.float32)).reshape(rows, -1, group)
    return ((codes - 8) * scales).reshape(rows, columns), scales.expand(-1, -1, group).reshape(rows, columns)


class TensorFiles(unittest.TestCase):
    """The `.bin` files of the cases."""

    def test_round_trip(self):
        tensors = [
            torch.randn(2, 3),
            torch.randn(4).to(torch.bfloat16),
            torch.arange(5),
            torch.tensor([True, False]),
            torch.tensor(3, dtype=torch.int32),
            torch.zeros(0, 7, dtype=torch.float16),
            torch.arange(4, dtype=torch.uint8),
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.bin"
            write_tensors(path, tensors)
            for before, after in zip(tensors, read_tensors(path), strict=True):
                self.assertEqual(before.dtype, after.dtype)
                self.assertTrue(torch.equal(before, after))


class Qwen3(unittest.TestCase):
    """A random-weight Qwen3 through the command line."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.model = save_qwen3(cls.root / "qwen3")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def export(self, *more):
        out = self.root / "out" / "model.pte"
        done = run_script(
            "--checkpoint", self.root / "qwen3", "--out", out, "--max-ctx", 64, "--prefill-chunk", 16, *more
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return Pte(out.read_bytes())

    def test_four_bit(self):
        pte = self.export("--quant", "4w")
        (delegate,) = pte.op_counts()
        nodes = delegate["nodes"]
        self.assertEqual(nodes["QuantizedMatmulNode"], 2 * 7 + 1)
        self.assertEqual(nodes["SdpaNode"], 2)
        self.assertEqual(nodes["SliceUpdateNode"], 4)
        self.assertNotIn("MetalKernelNode", nodes)
        values = {plan["name"]: plan["values"] for plan in pte.program["execution_plan"]}
        self.assertEqual(
            {name: plan[0]["val"]["int_val"] for name, plan in values.items() if name != "forward"},
            {"get_max_ctx_len": 64, "get_max_seq_len": 64, "get_prefill_chunk_size": 16, "get_vocab_size": 256},
        )
        weight = self.model.model.layers[1].mlp.down_proj.weight.float()
        stored, scale = unpack_bf16(pte, "model.model.layers.1.mlp.down_proj", *weight.shape)
        error = ((weight - stored).abs() / scale).detach()
        self.assertLess(error.mean(), 0.3)
        self.assertLess(error.max(), 2.5)

    def test_other_settings(self):
        (delegate,) = self.export("--quant", "8w", "--embedding-quant", "none").op_counts()
        self.assertIn("QuantizedMatmulNode", delegate["nodes"])
        self.assertNotIn("DequantizeNode", delegate["nodes"])
        (delegate,) = self.export("--quant", "none", "--dtype", "fp32").op_counts()
        self.assertNotIn("QuantizedMatmulNode", delegate["nodes"])
        (delegate,) = self.export("--off-graph-cache").op_counts()
        self.assertEqual(delegate["nodes"]["UpdateAndAttendNode"], 2)

    def test_refusals(self):
        def refused(*arguments):
            done = run_script(*arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertNotIn("Traceback", done.stderr)
            return done.stderr

        qwen3, out = self.root / "qwen3", self.root / "x.pte"
        self.assertIn("not a folder", refused("--checkpoint", self.root / "nowhere", "--out", out))
        empty = self.root / "empty"
        empty.mkdir()
        self.assertIn("no config.json", refused("--checkpoint", empty, "--out", out))
        (empty / "config.json").write_text("{}")
        self.assertIn("no *.safetensors", refused("--checkpoint", empty, "--out", out))
        self.assertIn("end in .pte", refused("--checkpoint", qwen3, "--out", self.root / "model"))
        self.assertIn("256 positions", refused("--checkpoint", qwen3, "--out", out, "--max-ctx", 4096))
        chunk = ("--max-ctx", 64, "--prefill-chunk", 65)
        self.assertIn("from 2 to 64", refused("--checkpoint", qwen3, "--out", out, *chunk))
        self.assertIn(
            "no multiple", refused("--checkpoint", qwen3, "--out", out, "--max-ctx", 256, "--group-size", 128)
        )
        (empty / "config.json").write_text(json.dumps({"model_type": "no-such-model", "architectures": ["NoSuch"]}))
        (empty / "model.safetensors").write_bytes(b"")
        self.assertIn("NoSuch could not be exported", refused("--checkpoint", empty, "--out", out))
        self.assertFalse(out.exists())


class Gemma3(unittest.TestCase):
    """A random-weight model with a sliding window, with the sizes left open."""

    def test_default_sizes(self):
        settings = {**QWEN3, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            torch.manual_seed(7)
            Gemma3ForCausalLM(Gemma3TextConfig(**settings)).save_pretrained(folder / "gemma3")
            done = run_script("--checkpoint", folder / "gemma3", "--out", folder / "model.pte")
            self.assertEqual(done.returncode, 0, done.stderr)
            pte = Pte((folder / "model.pte").read_bytes())
            self.assertEqual(pte.tensors("inputs")[0]["sizes"], [1, 16])
            (delegate,) = pte.op_counts()
            self.assertIn("ModIntNode", delegate["nodes"])


class Shipped(unittest.TestCase):
    """The shipped model as a Hugging Face checkpoint."""

    @torch.no_grad()
    def test_llama_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            kjv_to_hf.write_checkpoint(SHIPPED, folder / "hf")
            model = AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32).eval()
            steps = sorted((SHIPPED / "cases" / "certain_man").glob("step_*_input.bin"))
            ids = torch.cat([read_tensors(path)[0] for path in steps], dim=1)
            expected = [read_tensors(path.with_name(path.name.replace("input", "expected")))[0] for path in steps]
            difference = (model(ids).logits - torch.cat(expected, dim=1)).abs().max()
            self.assertLess(difference, 1e-3)
            out = folder / "out" / "model.pte"
            done = run_script("--checkpoint", folder / "hf", "--out", out, "--max-ctx", 512, "--dtype", "fp32")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((out.parent / "tokenizer.json").is_file())
            self.assertLess(out.stat().st_size, 3_000_000)


if __name__ == "__main__":
    unittest.main()
