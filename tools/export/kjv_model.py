"""The shipped model: a small llama-style decoder in plain PyTorch, used for training and as the eager reference.

RMSNorm, rotary position embedding (split halves), grouped key/value heads, SwiGLU, tied embedding, no biases.  Parameter
names are those of Hugging Face's `LlamaForCausalLM`, so a state dict is a checkpoint of that class.
"""

import dataclasses
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

QUANT_GROUP = 32


@dataclasses.dataclass
class Config:
    """Sizes of the decoder; field names follow Hugging Face's `LlamaConfig`."""

    vocab_size: int = 2048
    hidden_size: int = 256
    intermediate_size: int = 640
    num_hidden_layers: int = 5
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 32
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 512

    def save(self, path):
        """Write the sizes as JSON."""
        Path(path).write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path):
        """Read what `save` wrote."""
        return cls(**json.loads(Path(path).read_text(encoding="utf-8")))


def fake_quantize(weight, group=QUANT_GROUP):
    """Round to symmetric int4 groups along the last dimension; the gradient passes straight through.

    The scale is the smallest that clips nothing to [-8, 7], so rounding an already rounded weight changes nothing.  It
    is torchao's `MappingType.SYMMETRIC_NO_CLIPPING_ERR`, which the export uses.
    """
    groups = weight.detach().float().unflatten(-1, (-1, group))
    scale = torch.maximum(groups.amax(-1, keepdim=True) / 7, groups.amin(-1, keepdim=True) / -8)
    scale = scale.clamp_min(torch.finfo(torch.float32).eps)
    rounded = ((groups / scale).round().clamp(-8, 7) * scale).flatten(-2)
    return weight + (rounded - weight.detach())


class QuantLinear(nn.Linear):
    """A linear layer without bias whose weight is rounded to int4 while `rounding` is set."""

    rounding = False

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        return F.linear(x, fake_quantize(self.weight) if self.rounding else self.weight)


class QuantEmbedding(nn.Embedding):
    """An embedding table whose rows are rounded to int4 while `rounding` is set."""

    rounding = False

    def table(self):
        """The table as the forward pass sees it; the tied output layer uses the same one."""
        return fake_quantize(self.weight) if self.rounding else self.weight

    def forward(self, ids):
        return F.embedding(ids, self.table())


def rotary(x, cos, sin):
    """Rotate split halves of the last dimension: `x` is [B, H, T, D], `cos` and `sin` are [T, D/2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Attention(nn.Module):
    """Causal self-attention with fewer key/value heads than query heads."""

    def __init__(self, config, dropout):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        self.dropout = dropout
        self.q_proj = QuantLinear(config.hidden_size, self.heads * self.head_dim)
        self.k_proj = QuantLinear(config.hidden_size, self.kv_heads * self.head_dim)
        self.v_proj = QuantLinear(config.hidden_size, self.kv_heads * self.head_dim)
        self.o_proj = QuantLinear(self.heads * self.head_dim, config.hidden_size)

    def project(self, x):
        """Queries, keys and values as [B, heads, T, head_dim], not yet rotated."""
        batch, length, _ = x.shape
        return (
            self.q_proj(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2),
            self.k_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2),
            self.v_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2),
        )

    def forward(self, x, cos, sin):
        q, k, v = self.project(x)
        repeats = self.heads // self.kv_heads
        mixed = F.scaled_dot_product_attention(
            rotary(q, cos, sin).to(v.dtype),
            rotary(k, cos, sin).to(v.dtype).repeat_interleave(repeats, dim=1),
            v.repeat_interleave(repeats, dim=1),
            is_causal=True,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = QuantLinear(config.hidden_size, config.intermediate_size)
        self.up_proj = QuantLinear(config.hidden_size, config.intermediate_size)
        self.down_proj = QuantLinear(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm block."""

    def __init__(self, config, dropout):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = Attention(config, dropout)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = Mlp(config)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, cos, sin):
        x = x + self.drop(self.self_attn(self.input_layernorm(x), cos, sin))
        return x + self.drop(self.mlp(self.post_attention_layernorm(x)))


class Body(nn.Module):
    """Everything below the output layer."""

    def __init__(self, config, dropout):
        super().__init__()
        self.embed_tokens = QuantEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.drop = nn.Dropout(dropout)


class Decoder(nn.Module):
    """The whole model: token ids [B, T] to logits [B, T, vocab]."""

    def __init__(self, config, dropout=0.0):
        super().__init__()
        self.config = config
        self.model = Body(config, dropout)
        self.apply(self._initialise)
        for layer in self.model.layers:
            for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
                nn.init.normal_(weight, std=0.02 / (2 * config.num_hidden_layers) ** 0.5)

    @staticmethod
    def _initialise(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def angles(self, length, device):
        """Cosine and sine of the rotary angles, [T, head_dim/2]."""
        config = self.config
        exponent = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32) / config.head_dim
        turns = torch.arange(length, device=device, dtype=torch.float32)[:, None] * config.rope_theta**-exponent
        return turns.cos(), turns.sin()

    def forward(self, ids):
        cos, sin = self.angles(ids.shape[1], ids.device)
        x = self.model.drop(self.model.embed_tokens(ids))
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return F.linear(self.model.norm(x), self.model.embed_tokens.table())

    def set_rounding(self, on):
        """Switch int4 rounding of every weight matrix on or off."""
        for module in self.modules():
            if isinstance(module, QuantLinear | QuantEmbedding):
                module.rounding = on

    def rounded_state(self):
        """A state dict whose weight matrices already lie on the int4 grid."""
        return {
            name: fake_quantize(value) if value.ndim == 2 else value.detach()
            for name, value in self.state_dict().items()
        }
