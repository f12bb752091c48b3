"""
Weight shapes of served models: the GEMMs [M,K] × [K,N] that an inference engine runs, M being tokens.

Shapes and split dimensions: vllm-project/vllm, benchmarks/kernels/weight_shapes.py (read 2026-11-29). Labels and head
counts follow from the models' public configurations. Where K is split each gpu adds up a part of the sum; where N is
split each gpu makes a part of the output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class WeightShape:
    """
    One weight matrix.

    Attributes:
        label: what it does in the model ("fused QKV", "o_proj", "gate+up", "down_proj", …).
        k: input features K.
        n: output features N.
        split: dimension that tensor parallelism divides among gpus.
    """

    label: str
    k: int
    n: int
    split: Literal["k", "n"]

    @property
    def split_size(self) -> int:
        """Size of the dimension that tensor parallelism divides."""
        return self.k if self.split == "k" else self.n

    def divided_by(self, tp: int) -> WeightShape:
        """The part that each of `tp` gpus holds; `tp` must divide the split dimension."""
        if self.split == "k":
            return replace(self, k=self.k // tp)
        return replace(self, n=self.n // tp)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """
    A model by its key on the Hugging Face hub.

    Attributes:
        key: organisation and name.
        head_groups: parts that attention divides into without copies: KV heads (query heads where attention is latent).
        shapes: its weight matrices on a single gpu.
    """

    key: str
    head_groups: int
    shapes: tuple[WeightShape, ...]

    @property
    def allowed_tp(self) -> tuple[int, ...]:
        """Numbers of gpus that divide this model evenly, smallest first."""
        return tuple(tp for tp in range(1, self.head_groups + 1) if self._divides(tp))

    def divided_by(self, tp: int) -> tuple[WeightShape, ...]:
        """
        Shapes that each of `tp` gpus multiplies.

        Raises:
            ValueError: `tp` exceeds the head groups (engines then copy KV heads, and these shapes would be wrong), or
                does not divide every split dimension.
        """
        if tp not in self.allowed_tp:
            allowed = ", ".join(str(number) for number in self.allowed_tp)
            raise ValueError(f"{self.key} cannot be split over {tp} gpus; choose a tensor-parallel size of {allowed}")
        return tuple(shape.divided_by(tp) for shape in self.shapes)

    def _divides(self, tp: int) -> bool:
        return self.head_groups % tp == 0 and all(shape.split_size % tp == 0 for shape in self.shapes)


def _dense(*, hidden: int, qkv: int, intermediate: int) -> tuple[WeightShape, ...]:
    """Four projections of a dense transformer layer: gate and up are one matrix, so its N is twice the intermediate."""
    return (
        WeightShape("fused QKV", hidden, qkv, "n"),
        WeightShape("o_proj", hidden, hidden, "k"),
        WeightShape("gate+up", hidden, 2 * intermediate, "n"),
        WeightShape("down_proj", intermediate, hidden, "k"),
    )


_LLAMA_3_8B = _dense(hidden=4096, qkv=6144, intermediate=14336)
_LLAMA_2_70B = _dense(hidden=8192, qkv=10240, intermediate=28672)

# The source lists two more rows for this model, [2048,4096] and [2048,576]. They are left out: the first gives the
# latent KV projection an input of 2048 where the model's kv_lora_rank is 512, and the second is copied to every gpu,
# not split, so neither row is a GEMM that an engine runs as listed.
_DEEPSEEK_V2_LITE = (
    WeightShape("q_proj", 2048, 3072, "n"),
    WeightShape("o_proj", 2048, 2048, "k"),
    WeightShape("gate+up", 2048, 21888, "n"),
    WeightShape("down_proj", 10944, 2048, "k"),
    WeightShape("expert gate+up", 2048, 2816, "n"),
    WeightShape("expert down_proj", 1408, 2048, "k"),
)

_MODELS = (
    ServedModel("meta-llama/Llama-3.1-8B-Instruct", 8, _LLAMA_3_8B),
    ServedModel("meta-llama/Llama-3-8b", 8, _LLAMA_3_8B),
    ServedModel("mistralai/Mistral-7B-v0.1", 8, _LLAMA_3_8B),
    ServedModel("meta-llama/Llama-2-7b-hf", 32, _dense(hidden=4096, qkv=12288, intermediate=11008)),
    ServedModel("meta-llama/Llama-2-13b-hf", 40, _dense(hidden=5120, qkv=15360, intermediate=13824)),
    ServedModel("meta-llama/Llama-2-70b-hf", 8, _LLAMA_2_70B),
    ServedModel("meta-llama/Llama-3.3-70B-Instruct", 8, _LLAMA_2_70B),
    ServedModel("meta-llama/Llama-3.1-405b-hf", 8, _dense(hidden=16384, qkv=18432, intermediate=53248)),
    ServedModel("mistralai/Mistral-Large-Instruct-2407", 8, _dense(hidden=12288, qkv=14336, intermediate=28672)),
    ServedModel("Qwen/Qwen2.5-7B-Instruct", 4, _dense(hidden=3584, qkv=4608, intermediate=18944)),
    ServedModel("Qwen/Qwen2.5-32B-Instruct", 8, _dense(hidden=5120, qkv=7168, intermediate=27648)),
    ServedModel("Qwen/Qwen2.5-72B-Instruct", 8, _dense(hidden=8192, qkv=10240, intermediate=29568)),
    ServedModel("CohereLabs/c4ai-command-a-03-2025", 8, _dense(hidden=12288, qkv=14336, intermediate=36864)),
    ServedModel("deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", 16, _DEEPSEEK_V2_LITE),
)

SERVED_MODELS = {model.key: model for model in _MODELS}

# What a sweep multiplies unless told otherwise: small enough for every card, shaped like most models that are served.
DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def served_model(key: str) -> ServedModel:
    """
    Look a model up by its exact key.

    Raises:
        ValueError: the key is not in the catalogue; the message lists those that are.
    """
    if key not in SERVED_MODELS:
        raise ValueError(f"no weight shapes for model {key!r}; choose one of {', '.join(SERVED_MODELS)}")
    return SERVED_MODELS[key]
