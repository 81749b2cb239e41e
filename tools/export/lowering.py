"""What every export script here shares: lowering to a `.pte`, reading one back, and the tensor files of the tests."""

import json
import logging
import struct
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy
import torch

DTYPES = [torch.float32, torch.float16, torch.int32, torch.int64, torch.bfloat16, torch.bool, torch.uint8]
PAYLOAD_HEADER = 24
PACKAGES = ("executorch", "torch", "torchao", "transformers")


def quiet():
    """Silence the notes that torch and executorch log while they are imported and used."""
    logging.disable(logging.WARNING)


def lower(exported, constant_methods=None, alloc_graph_input=True):
    """Lower an exported program as executorch's own MLX examples do; returns the bytes of the `.pte`."""
    from executorch import exir
    from executorch.backends.mlx import MLXPartitioner
    from executorch.backends.mlx.passes import get_default_passes
    from executorch.exir.capture._config import ExecutorchBackendConfig
    from executorch.exir.passes import MemoryPlanningPass

    edge = exir.to_edge_transform_and_lower(
        {"forward": exported},
        transform_passes=get_default_passes(),
        partitioner=[MLXPartitioner()],
        compile_config=exir.EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        constant_methods=constant_methods or {},
    )
    program = edge.to_executorch(
        config=ExecutorchBackendConfig(
            extract_delegate_segments=True,
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=alloc_graph_input),
        )
    )
    return bytes(program.buffer)


class Pte:
    """A `.pte` read back: its program table, its named data and the op names of its delegate payloads."""

    def __init__(self, data):
        from executorch.exir._serialize._flatbuffer import _program_flatbuffer_to_json

        self.data = data
        self.program = json.loads(_program_flatbuffer_to_json(data))
        magic, _, _, base = struct.unpack_from("<4sIQQ", data, 8)
        if magic != b"eh00":
            raise ValueError("the file has no extended header")
        self.segment_base = base
        self.named = {entry["key"]: entry["segment_index"] for entry in self.program.get("named_data", [])}

    def segment(self, index):
        """The bytes of one segment."""
        entry = self.program["segments"][index]
        start = self.segment_base + entry.get("offset", 0)
        return self.data[start : start + entry["size"]]

    def constant(self, suffix):
        """The bytes of the one constant whose name ends in `suffix` (keys carry a four-digit prefix)."""
        keys = [key for key in self.named if key.partition("/")[2] == suffix]
        if len(keys) != 1:
            raise KeyError(f"{len(keys)} constants are called {suffix}")
        return self.segment(self.named[keys[0]])

    def plan(self, method="forward"):
        """The execution plan of one method."""
        return next(plan for plan in self.program["execution_plan"] if plan["name"] == method)

    def payloads(self, method="forward"):
        """The delegate payloads of one method."""
        for delegate in self.plan(method)["delegates"]:
            where = delegate["processed"]
            if where.get("location", "INLINE") == "SEGMENT":
                yield self.segment(where.get("index", 0))
            else:
                yield bytes(self.program["backend_delegate_data"][where.get("index", 0)]["data"])

    def op_counts(self, method="forward"):
        """Per delegate: how often each op occurs, and the instructions per chain."""
        from executorch.backends.mlx.serialization._generated.mlx_delegate.MLXGraph import MLXGraph
        from executorch.backends.mlx.serialization._generated_serializers import MLX_OP_TYPE_NAMES

        delegates = []
        for payload in self.payloads(method):
            graph = MLXGraph.GetRootAs(payload[PAYLOAD_HEADER:], 0)
            chains = [graph.InstructionChains(index) for index in range(graph.InstructionChainsLength())]
            counts = Counter(
                MLX_OP_TYPE_NAMES[chain.Instructions(index).OpType()]
                for chain in chains
                for index in range(chain.InstructionsLength())
            )
            delegates.append(
                {
                    "graph_version": graph.Version().decode(),
                    "instructions_per_chain": [chain.InstructionsLength() for chain in chains],
                    "main_chain": graph.MainChainIdx(),
                    "init_chain": graph.InitChainIdx(),
                    "constants": graph.NumConstantTensors(),
                    "mutable": graph.NumMutableBufferTensors(),
                    "temps": graph.NumTempTensors(),
                    "values": graph.NumValues(),
                    "nodes": dict(counts.most_common()),
                }
            )
        return delegates

    def kernel_calls(self, method="forward"):
        """Names of the operators that the plan calls outside its delegates, one entry a call."""
        plan = self.plan(method)
        names = []
        for chain in plan["chains"]:
            for instruction in chain["instructions"]:
                if instruction["instr_args_type"] == "KernelCall":
                    operator = plan["operators"][instruction["instr_args"].get("op_index", 0)]
                    names.append(f"{operator['name']}.{operator['overload']}".rstrip("."))
        return names

    def tensors(self, which, method="forward"):
        """Shape, dtype and dynamism of the plan's inputs or outputs."""
        plan = self.plan(method)
        found = []
        for index in plan[which]:
            value = plan["values"][index]
            kind = value.get("val_type", "None")
            entry = {"type": kind}
            if kind == "Tensor":
                tensor = value["val"]
                entry["dtype"] = tensor.get("scalar_type", "BYTE")
                entry["sizes"] = tensor.get("sizes", [])
                entry["dynamism"] = tensor.get("shape_dynamism", "STATIC")
            elif "val" in value:
                entry["val"] = value["val"]
            found.append(entry)
        return found


def describe(data):
    """The facts about a `.pte` that a `meta.json` records."""
    pte = Pte(data)
    methods = {}
    for plan in pte.program["execution_plan"]:
        name = plan["name"]
        methods[name] = {
            "inputs": pte.tensors("inputs", name),
            "outputs": pte.tensors("outputs", name),
            "kernel_calls": dict(Counter(pte.kernel_calls(name))),
            "delegates": pte.op_counts(name),
        }
    return {"bytes": len(data), "segments": len(pte.program.get("segments", [])), "methods": methods}


def write_tensors(path, tensors):
    """Write tensors as `u32 count; per tensor u32 dtype, u32 rank, i32 dims, data`, little endian."""
    with open(path, "wb") as file:
        file.write(struct.pack("<I", len(tensors)))
        for tensor in tensors:
            tensor = tensor.detach().contiguous()
            file.write(struct.pack("<II", DTYPES.index(tensor.dtype), tensor.ndim))
            file.write(struct.pack(f"<{tensor.ndim}i", *tensor.shape))
            raw = tensor.reshape(-1)
            file.write(
                raw.view(torch.int16).numpy().tobytes() if raw.dtype == torch.bfloat16 else raw.numpy().tobytes()
            )


def read_tensors(path):
    """Read what `write_tensors` wrote."""
    data = Path(path).read_bytes()
    (count,), at, tensors = struct.unpack_from("<I", data), 4, []
    for _ in range(count):
        code, rank = struct.unpack_from("<II", data, at)
        shape = struct.unpack_from(f"<{rank}i", data, at + 8)
        at += 8 + 4 * rank
        dtype = DTYPES[code]
        size = int(numpy.prod(shape, dtype=numpy.int64)) * dtype.itemsize
        raw = bytearray(data[at : at + size])
        flat = torch.frombuffer(raw, dtype=dtype) if size else torch.empty(0, dtype=dtype)
        tensors.append(flat.reshape(shape))
        at += size
    return tensors


def write_case(folder, steps):
    """Write one case: `steps` is a list of (inputs, expected outputs)."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("step_*.bin"):
        old.unlink()
    for index, (inputs, expected) in enumerate(steps):
        write_tensors(folder / f"step_{index:03}_input.bin", inputs)
        write_tensors(folder / f"step_{index:03}_expected.bin", expected)


def write_meta(folder, meta, pte):
    """Write `model.pte` and `meta.json`; `meta` gains the file's facts and the versions."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pte").write_bytes(pte)
    meta = {
        **meta,
        "programs": {"model.pte": describe(pte)},
        "versions": {name: version(name) for name in PACKAGES},
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
