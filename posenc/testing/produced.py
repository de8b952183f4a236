"""The tables that are compared: given, held by a module, or returned by one that is called."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from posenc.checkpoints.array_files import cosines_and_sines, name_of_sines
from posenc.errors import SchemeArgumentError
from posenc.identification.columns import TableInput
from posenc.identification.comparison import TableScheme
from posenc.identification.match import expected_positions
from posenc.identification.rotary_modules import (
    CONTEXT,
    Answer,
    Asked,
    Question,
    ask,
    layer_types,
    takes_positions,
)
from posenc.limits import MAX_POSITION, check_count
from posenc.testing.questions import refusal_words

Tables = Tensor | Sequence[Tensor] | nn.Module
Parts = tuple[Tensor, Tensor | None]  # a table; or cosines and sines


def answers_of(
    produced: Tables,
    configs: Mapping[str, TableScheme],
    named_context: int,
    start: int,
    positions: Tensor | None,
    context: int | None,
) -> dict[str, Asked]:
    """Return the rows of each table that is given or held, or of each kind of layer, by name."""
    check_count("start", start, -MAX_POSITION, MAX_POSITION)
    if context is not None:
        check_count("context", context, 2, MAX_POSITION)
    parts = (
        _tables_of_module(produced) if isinstance(produced, nn.Module) else _tables_given(produced)
    )
    held = {name: TableInput.of(*each) for name, each in parts.items()}
    if isinstance(produced, nn.Module) and (takes_positions(produced) or not held):
        rows = min((len(source.columns) for source in held.values()), default=CONTEXT)
        asked = _asked(produced, configs, context or named_context or rows)
        silent = next((each.refused for each in asked.values() if not each.answers), None)
        if silent and not held:
            raise SchemeArgumentError(
                f"{type(produced).__name__} holds no one table of positions and does not return cosines "
                f"and sines of module(x, position_ids), as in transformers ({refusal_words(silent)}); "
                "give the tables."
            )
        if (start or positions is not None) and not silent:
            raise SchemeArgumentError(
                "start and positions are those of a table's rows; this module is called with positions."
            )
        if not silent:
            return asked
    if context is not None:
        raise SchemeArgumentError(
            "context is the number of positions of a module that is called with them; a table has rows."
        )
    if positions is not None and start:
        raise SchemeArgumentError("Give start or positions, not both.")
    return {
        name: Asked(
            [Answer(source, Question(start + expected_positions(positions, len(source.columns))))]
        )
        for name, source in held.items()
    }


def _asked(module: nn.Module, configs: Mapping[str, TableScheme], context: int) -> dict[str, Asked]:
    """Return what a module returns for each kind of layer that the model has."""
    kinds, asked = layer_types(module), {}
    for kind in [kind for kind in kinds if kind in configs] or kinds:
        chosen = [configs[kind]] if kind in configs else configs.values()
        lengths = {getattr(config, "trained_length", 0) for config in chosen}
        asked[kind] = ask(module, context, lengths, kind)
    return asked


def _tables_given(produced: Tensor | Sequence[Tensor]) -> dict[str, Parts]:
    """Return a table, or cosines and sines, that somebody gave as tensors; it has no name."""
    if isinstance(produced, Tensor):
        return {"": (produced, None)}
    parts = list(produced)
    if len(parts) != 2:
        raise SchemeArgumentError(f"Give one table, or cosines and sines, got {len(parts)} tables.")
    return {"": (parts[0], parts[1])}


def _tables_of_module(module: nn.Module) -> dict[str, Parts]:
    """Return the tables that a module holds, by name; {} if it holds none, or several of other use."""
    # A tensor that layers share counts under all its names, so that each finds its partner.
    tensors = (
        *module.named_buffers(remove_duplicate=False),
        *module.named_parameters(remove_duplicate=False),
    )
    matrices = {
        name: tensor
        for name, tensor in tensors
        if (tensor.is_floating_point() or tensor.is_complex())
        and (tensor.squeeze().ndim == 2 or cosines_and_sines(tensor) is not None)
    }
    pairs: dict[tuple[int, int], tuple[str, Parts]] = {}
    for name, tensor in matrices.items():
        sines = matrices.get(partner := name_of_sines(name))
        if sines is not None:
            pairs.setdefault((id(tensor), id(sines)), (f"{name} and {partner}", (tensor, sines)))
    if len(pairs) > 1:
        return dict(pairs.values())
    if pairs:
        return {"": next(iter(pairs.values()))[1]}
    if len({id(tensor) for tensor in matrices.values()}) == 1:
        return {"": (next(iter(matrices.values())), None)}
    return {}
