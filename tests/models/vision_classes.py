"""Encoders of images of transformers: rotate vectors by their own functions at each place of a grid."""

import importlib
import inspect
from typing import Any

import torch
from torch import Tensor

APPLY = (
    "vision_apply_rotary_emb",
    "apply_rotary_pos_emb_vision",
    "apply_rotary_pos_emb",
    "apply_rotary_emb",
)


def module_of(model_type: str) -> Any:
    import transformers

    name = transformers.CONFIG_MAPPING[model_type].__module__
    return importlib.import_module(name.replace("configuration_", "modeling_"))


def rotary_of(model_type: str, config: Any) -> torch.nn.Module:
    """Return the module of a class that gives cosines and sines for places of a grid."""
    for name, part in vars(module_of(model_type)).items():
        is_rotary = inspect.isclass(part) and (
            hasattr(part, "compute_axial_rope_parameters")
            or name.endswith(("RopePositionEmbedding", "Llama4VisionRotaryEmbedding"))
        )
        if is_rotary:
            made: torch.nn.Module = part(config)
            return made.eval()  # DINOv3 moves places at random in training
    raise LookupError(model_type)


def places(rows: int, columns: int) -> Tensor:
    """Row and column of every patch of a grid, row by row: (patches, 2)."""
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack((row.flatten(), column.flatten()), dim=-1)


def angles(model_type: str, config: Any, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the class for a grid: (patches, width) each."""
    rotary = rotary_of(model_type, config)
    if type(rotary).__name__.endswith("RopePositionEmbedding"):
        size = config.patch_size
        return rotary(torch.zeros(1, 3, rows * size, columns * size))
    if model_type == "llama4_vision_model":  # a table for its own grid, with the class token last
        assert rows == columns == config.image_size // config.patch_size
        table = rotary(torch.zeros(1))[:-1, 0]
        return table.real, table.imag
    at = places(rows, columns)
    with_frame = torch.cat((torch.zeros(len(at), 1, dtype=torch.long), at), dim=-1)
    for ids in (with_frame,) if model_type == "minimax_m3_vl_vision" else (at, at[None]):
        try:
            cos, sin = rotary(torch.zeros(1, len(at), 1), ids)
        except (IndexError, RuntimeError, TypeError):
            continue
        if cos.numel() // cos.shape[-1] == len(at):
            return cos.reshape(len(at), -1), sin.reshape(len(at), -1)
    raise LookupError(model_type)


def rotated(model_type: str, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate (patches, width) by the class's own function."""
    module = module_of(model_type)
    functions = [getattr(module, name) for name in APPLY if hasattr(module, name)]
    for function in functions:
        for shape in ((1, 1, len(x), -1), (len(x), 1, -1), (1, len(x), 1, -1)):
            try:
                if model_type == "llama4_vision_model":
                    table = torch.complex(cos, sin)[:, None]
                    return function(x[None, :, None], x[None, :, None], table)[0].reshape(x.shape)
                result, _ = function(x.reshape(shape), x.reshape(shape), cos, sin)
            except (RuntimeError, TypeError, IndexError):
                continue
            if result.numel() == x.numel():
                return result.reshape(x.shape)
    raise LookupError(model_type)
