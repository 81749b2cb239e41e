"""Small models of our own whose lowered programs the repository's tests run; `make_fixtures.py` exports them."""

import executorch.backends.mlx.custom_kernel_ops.gated_delta_rule  # noqa: F401  (registers mlx::gated_delta_rule)
import torch
import torch.nn.functional as F
from executorch.backends.mlx.llm.cache import KVCache, RingBufferKVCache
from torch import nn

import fixture_ops  # noqa: F401  (registers lowtide::choose)


class NestedIf(nn.Module):
    """A condition tree three deep between two matrix products; x is read again after it."""

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(16, 16)
        self.after = nn.Linear(16, 8)

    def forward(self, x, y, outer, middle, inner):
        h = self.before(x)
        chosen = torch.ops.lowtide.choose(h, y, outer, middle, inner)
        return self.after(chosen) + h[:, :8]


class Experts(nn.Module):
    """A mixture of four expert matrices, two per row; the delegate sorts the rows only when there are more than three."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.Parameter(torch.randn(4, 16, 16) / 4)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        rows, experts, ordered, inverse = torch.ops.mlx.moe_gather_inputs(x, chosen, 2, 3)
        mixed = torch.ops.mlx.gather_mm(rows, self.experts, experts, None, ordered)
        back = torch.ops.mlx.moe_scatter_outputs(mixed, ordered, inverse, 2)
        return (back * weights.unsqueeze(-1)).sum(1)


class SampleHead(nn.Module):
    """Token choice inside the program: greedy when the temperature is 0, otherwise drawn after top-k and top-p."""

    def forward(self, logits, temperature, top_k, top_p, seed):
        return torch.ops.mlx.sample(logits, temperature, top_k, top_p, seed)


class DeltaScan(nn.Module):
    """A gated delta rule layer over time, lowered to SCAN; its state persists between calls."""

    heads, width = 2, 16

    def __init__(self):
        super().__init__()
        size = self.heads * self.width
        self.q, self.k, self.v = (nn.Linear(32, size, bias=False) for _ in range(3))
        self.gates = nn.Linear(32, 2 * self.heads)
        self.out = nn.Linear(size, 32, bias=False)
        self.register_buffer("state", torch.zeros(1, self.heads, self.width, self.width))

    def forward(self, x):
        shape = (1, x.shape[1], self.heads, self.width)
        q, k, v = (F.silu(layer(x)).view(shape) for layer in (self.q, self.k, self.v))
        decay, rate = self.gates(x).sigmoid().chunk(2, dim=-1)
        mixed = torch.ops.mlx.gated_delta_rule(
            q, k * self.width**-0.5, v, decay, rate, self.state, use_custom_kernel=False
        )
        return self.out(mixed.flatten(2))

    def reset(self):
        """Back to the state of a new session."""
        self.state.zero_()


class FullSum(nn.Module):
    """A tensor of one value as large as the input says, summed: each row of x plus the number of rows times 0.25."""

    def forward(self, x):
        return x + torch.full((x.shape[0], 8), 0.25).sum(0)


class VisionBlock(nn.Module):
    """Patch convolution, norms of three kinds, a depthwise convolution, self-attention, pooling."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, kernel_size=4, stride=4)
        self.batch_norm = nn.BatchNorm2d(32)
        self.depthwise = nn.Conv2d(32, 32, kernel_size=3, padding=1, groups=32)
        self.group_norm = nn.GroupNorm(4, 32)
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96)
        self.project = nn.Linear(32, 32)
        self.mlp = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, image):
        x = F.relu(self.batch_norm(self.patch(image)))
        x = x + F.gelu(self.group_norm(self.depthwise(x)), approximate="tanh")
        x = F.max_pool2d(x, 2).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.norm(x)).view(1, -1, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.project(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = x + self.mlp(x)
        return self.head(x.mean(1))


class Encoder(nn.Module):
    """Two post-norm blocks with bidirectional, masked attention, and a masked mean, as sentence encoders have."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(96, 32), nn.Embedding(32, 32)
        self.norm = nn.LayerNorm(32)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": nn.Linear(32, 96),
                    "project": nn.Linear(32, 32),
                    "first_norm": nn.LayerNorm(32),
                    "up": nn.Linear(32, 64),
                    "down": nn.Linear(64, 32),
                    "second_norm": nn.LayerNorm(32),
                }
            )
            for _ in range(2)
        )

    def forward(self, input_ids, attention_mask):
        length = input_ids.shape[1]
        x = self.norm(self.words(input_ids) + self.places(torch.arange(length)))
        lowest = torch.finfo(torch.float32).min
        bias = (1 - attention_mask[:, None, None, :].float()) * lowest
        for block in self.blocks:
            q, k, v = block["qkv"](x).view(1, length, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(1, 1, length, length))
            x = block["first_norm"](x + block["project"](mixed.transpose(1, 2).flatten(2)))
            x = block["second_norm"](x + block["down"](F.gelu(block["up"](x))))
        mask = attention_mask[:, :, None].float()
        return x, F.normalize((x * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=-1)


class ChunkedDecoder(nn.Module):
    """Two decoder layers called a few tokens at a time: one over a plain cache, one over a ring with a window of 8."""

    capacity, window, chunk = 32, 8, 4

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.qkv = nn.ModuleList(nn.Linear(32, 64, bias=False) for _ in range(2))
        self.project = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(32, eps=1e-5) for _ in range(3))
        self.caches = nn.ModuleList(
            [
                KVCache(1, self.capacity, n_heads=1, head_dim=16, enable_dynamic_shape=True),
                RingBufferKVCache(1, self.window, n_heads=1, head_dim=16, max_write_len=self.chunk),
            ]
        )

    def attend(self, index, x, start):
        """Attention of one layer over its cache."""
        length, cache = x.shape[1], self.caches[index]
        q, k, v = self.qkv[index](x).split([32, 16, 16], dim=-1)
        q = torch.ops.mlx.rope(q.view(1, length, 2, 16).transpose(1, 2), 16, start, False, 10000.0, 1.0, None)
        k = torch.ops.mlx.rope(k.view(1, length, 1, 16).transpose(1, 2), 16, start, False, 10000.0, 1.0, None)
        keys, values = cache.update(start, k, v.view(1, length, 1, 16).transpose(1, 2))
        if index == 0:
            mixed = torch.ops.mlx.custom_sdpa(q, keys, values, start_pos=start, is_causal=True)
        else:
            mask = cache.create_sliding_window_mask(start, length)
            mixed = torch.ops.mlx.custom_sdpa(
                q, keys, values, start_pos=cache.buffer_size - length, attn_mask=mask, is_causal=False
            )
        return self.project[index](mixed.transpose(1, 2).flatten(2))

    def forward(self, input_ids, cache_position):
        start = cache_position[0].item()
        torch._check(start >= 0)
        torch._check(start + input_ids.shape[1] <= self.capacity)
        x = self.embed(input_ids)
        for index in range(2):
            x = x + self.attend(index, self.norms[index](x), start)
        return F.linear(self.norms[2](x), self.embed.weight)

    def reset(self):
        """Back to the state of a new session."""
        for cache in self.caches:
            cache.k_cache.zero_()
            cache.v_cache.zero_()


class TwoDelegates(nn.Module):
    """Two matrix products around a `gather`, which the delegate does not take: the program calls a kernel between."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(4, 8)

    def forward(self, x, index):
        return self.second(torch.gather(F.relu(self.first(x)), 1, index))
