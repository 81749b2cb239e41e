"""Operators of our own, lowered through the delegate's public op registry, for graphs that no PyTorch model gives.

The delegate has no lowering for `torch.cond`; it emits IF only from operators of its own (`mlx::sample`, the mixture of
experts ones), never nested.  `lowtide::choose` is a tree of conditions three deep, lowered with the delegate's own
`emit_if_else`.
"""

import torch
from executorch.backends.mlx.builder.op_helpers import emit_if_else
from executorch.backends.mlx.builder.op_registry import REGISTRY
from executorch.backends.mlx.serialization import mlx_graph_schema as schema
from torch import Tensor


@torch.library.custom_op("lowtide::choose", mutates_args=())
def choose(x: Tensor, y: Tensor, outer: Tensor, middle: Tensor, inner: Tensor) -> Tensor:
    """The tree: each condition is one integer, nonzero taking the first branch.

    outer ? (middle ? (inner ? tanh(x * y) + x : sigmoid(x * y) - y) : -(x * y)) : x + y
    """
    if not outer.item():
        return x + y
    product = x * y
    if not middle.item():
        return -product
    return product.tanh() + x if inner.item() else product.sigmoid() - y


@choose.register_fake
def _(x, y, outer, middle, inner):
    return torch.empty_like(x)


@REGISTRY.register(target=[torch.ops.lowtide.choose.default])
def lower_choose(builder, node):
    """Emit the tree; `product` is made in the outer branch and read two chains further in."""
    x, y, outer, middle, inner = builder.args(node)
    tid = builder.slot_to_tid
    out = builder.make_or_get_slot(node)
    _, product = builder.make_tmp_slot()
    _, squashed = builder.make_tmp_slot()

    def condition(tensor):
        _, value = builder.make_tmp_value_slot()
        builder.emit(schema.ItemIntNode(x=tid(tensor), out=builder.slot_to_vid(value)))
        return builder.to_int_or_vid(value)

    def inner_then():
        builder.emit(schema.TanhNode(x=tid(product), out=tid(squashed)))
        builder.emit(schema.AddNode(a=tid(squashed), b=tid(x), out=tid(out)))

    def inner_else():
        builder.emit(schema.SigmoidNode(x=tid(product), out=tid(squashed)))
        builder.emit(schema.SubtractNode(a=tid(squashed), b=tid(y), out=tid(out)))

    def middle_then():
        emit_if_else(builder, condition(inner), inner_then, inner_else)

    def middle_else():
        builder.emit(schema.NegNode(x=tid(product), out=tid(out)))

    def outer_then():
        builder.emit(schema.MultiplyNode(a=tid(x), b=tid(y), out=tid(product)))
        emit_if_else(builder, condition(middle), middle_then, middle_else)

    def outer_else():
        builder.emit(schema.AddNode(a=tid(x), b=tid(y), out=tid(out)))

    emit_if_else(builder, condition(outer), outer_then, outer_else)
    return out
