"""Configs of encoders of images are read as their classes in transformers rotate."""

import inspect
import json
from typing import Any

import pytest
import torch

from posenc.errors import ConfigFileError
from posenc.models import read_config
from posenc.models.vision_models import VISION_FAMILIES
from posenc.schemes.rope_scaling.sections import RopeSectionsConfig
from tests.models.vision_classes import angles, module_of, rotary_of, rotated

transformers = pytest.importorskip("transformers", minversion="5")

ROWS, COLUMNS = 5, 5


def built(model_type: str, **changes: Any) -> Any:
    return transformers.CONFIG_MAPPING[model_type](**changes)


def record_of(config: Any) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return record


@pytest.mark.parametrize("model_type", VISION_FAMILIES)
def test_products_of_queries_and_keys_are_those_of_the_class(model_type: str) -> None:
    """All places of a grid, rotated by the class itself; frequencies by its float32 operations."""
    config = built(model_type)
    if model_type == "llama4_vision_model":  # its table is of the size of its images
        config = built(model_type, image_size=ROWS * config.patch_size)
    model = read_config(record_of(config))
    scheme = model.main.scheme
    assert isinstance(scheme, RopeSectionsConfig)
    assert model.sees_images
    torch.manual_seed(0)
    q, k = torch.randn(2, ROWS * COLUMNS, model.main.head_dim)
    cos, sin = angles(model_type, config, ROWS, COLUMNS)
    theirs_q, theirs_k = (rotated(model_type, x, cos, sin) for x in (q, k))
    rotate = scheme.replace(grid=COLUMNS).build().rotate
    ours_q, ours_k = (x[0, 0] for x in rotate(q[None, None], k[None, None]))
    torch.testing.assert_close(ours_q @ ours_k.T, theirs_q @ theirs_k.T, rtol=0, atol=1e-4)
    if not scheme.normalized and "Places count from 1" not in " ".join(model.notes):
        torch.testing.assert_close(ours_q, theirs_q, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model_type", VISION_FAMILIES)
def test_absent_keys_take_the_defaults_of_the_class(model_type: str) -> None:
    whole, bare = read_config(record_of(built(model_type))), read_config({"model_type": model_type})
    assert (bare.layer_kinds, bare.hidden_size) == (whole.layer_kinds, whole.hidden_size)
    assert bare.layers == whole.layers
    assert whole.cache_numbers(1_000) == 0


def test_windows_of_qwen_are_those_of_its_index() -> None:
    from transformers.vision_utils import get_vision_window_index

    config = built("qwen2_5_vl_vision", depth=6, fullatt_block_indexes=[1, 4], window_size=56)
    full, windowed = read_config(record_of(config)).layer_kinds
    assert (full.layers, windowed.layers) == ((1, 4), (0, 2, 3, 5))
    _, ends = get_vision_window_index(torch.tensor([[1, 16, 16]]), 2, 56, config.patch_size)
    assert windowed.window == int(ends.diff().max())


def test_tokens_come_in_the_blocks_that_the_note_says() -> None:
    from transformers.vision_utils import get_vision_position_ids

    (note,) = [x for x in read_config({"model_type": "qwen2_vl_vision"}).notes if "blocks" in x]
    assert "2 x 2" in note
    first = get_vision_position_ids(torch.tensor([[1, 4, 4]]), 2)[:5].tolist()
    assert first == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2]]


@pytest.mark.parametrize(
    "changes", [{"rope_theta": 50.0}, {"rope_parameters": {"rope_theta": 50.0}}]
)
@pytest.mark.parametrize("model_type", VISION_FAMILIES)
def test_a_base_is_read_where_the_class_reads_it(model_type: str, changes: dict[str, Any]) -> None:
    """The class of DINOv3 ignores a rope block, which is refused."""
    config = built(model_type, **json.loads(json.dumps(changes)))
    of_class = getattr(config, "rope_theta", None)
    if of_class is None:
        of_class = config.rope_parameters["rope_theta"]
    assert of_class == (100 if model_type == "dinov3_vit" and "rope_parameters" in changes else 50)
    record = {"model_type": model_type} | changes
    if of_class != 50:
        with pytest.raises(ConfigFileError, match="rope_theta must be 100 or absent"):
            read_config(record)
    else:
        scheme = read_config(record).main.scheme
        assert isinstance(scheme, RopeSectionsConfig)
        assert scheme.base == of_class


WINDOWED = [name for name, family in VISION_FAMILIES.items() if family.window]
SMALL = {"hidden_size": 32, "num_heads": 2, "intermediate_size": 8, "out_hidden_size": 8}


@pytest.mark.parametrize("listed", [None, [1, 1], [1, 7, 15], []])
@pytest.mark.parametrize("model_type", WINDOWED)
def test_layers_with_windows_are_those_that_the_class_runs(
    model_type: str, listed: list[int] | None
) -> None:
    """The class asks which layer is in its list, so that others in the list have no effect."""
    keys: dict[str, Any] = (
        {"depth": 4} if listed is None else {"depth": 4, "fullatt_block_indexes": listed}
    )
    config = built(model_type, **SMALL | keys | {"num_key_value_heads": 2})
    module = module_of(model_type)
    name = type(config).__name__.removesuffix("Config").removesuffix("Encoder")
    encoder = next(
        part
        for name_, part in vars(module).items()
        if name_ in (f"{name}Model", f"{name}Encoder", f"{name}TransformerPretrainedModel")
        or (inspect.isclass(part) and getattr(part, "config_class", None) is type(config))
    )(config).eval()
    ends: list[int] = []
    for block in encoder.blocks:
        block.register_forward_pre_hook(
            lambda _, given, named: ends.append(len({**named}["cu_seqlens"])), with_kwargs=True
        )
    size = config.patch_size**2 * config.temporal_patch_size * config.in_channels
    grid = torch.tensor([[1, 16, 16]])
    with torch.no_grad():
        encoder(torch.zeros(256, size), grid)
    model = read_config({"model_type": model_type} | keys)
    kinds = {index: kind for kind in model.layer_kinds for index in kind.layers}
    assert sum(len(kind.layers) for kind in model.layer_kinds) == len(ends) == 4
    assert [kinds[index].window is None for index in range(4)] == [end == 2 for end in ends]
    assert any("window by window" in note for note in model.notes)


def test_tokens_of_a_windowed_encoder_stand_window_by_window() -> None:
    from transformers.vision_utils import get_vision_window_index

    index, _ = get_vision_window_index(torch.tensor([[1, 16, 16]]), 2, 112, 14)
    assert index[:5].tolist() == [
        0,
        1,
        2,
        3,
        8,
    ]  # blocks of 2 x 2, eight in a row, four in a window
    with pytest.raises(ZeroDivisionError):
        get_vision_window_index(torch.tensor([[1, 16, 16]]), 2, 20, 14)
    with pytest.raises(ConfigFileError, match="window_size must be at least 28"):
        read_config({"model_type": "qwen2_5_vl_vision", "window_size": 20})


def test_blocks_of_several_sizes_are_those_of_each_image() -> None:
    from transformers.vision_utils import get_vision_position_ids

    model = read_config({"model_type": "video_llama_3_vision"})
    assert any("m of each image by merge_sizes" in note for note in model.notes)
    grids, merges = torch.tensor([[1, 4, 4], [1, 4, 4]]), torch.tensor([1, 2])
    by_row, by_block = get_vision_position_ids(grids, merges).split(16)
    assert (by_row[2].tolist(), by_block[2].tolist()) == ([0, 2], [1, 0])
    alone = read_config({"model_type": "qwen2_vl_vision", "spatial_merge_size": 1})
    assert not any("blocks" in note for note in alone.notes)


@pytest.mark.parametrize(
    ("outer", "name"),
    [("qwen2_vl", "embed_dim"), ("minimax_m3_vl", "image_size"), ("llama4", "patch_size")],
)
def test_an_encoder_under_the_type_of_the_whole_model_is_refused(outer: str, name: str) -> None:
    record = {"model_type": outer, "hidden_size": 8_192, "num_hidden_layers": 32, name: 64}
    with pytest.raises(ConfigFileError, match=f"{name} is of its encoder of images"):
        read_config(record)
    assert read_config(
        {"model_type": "qwen2_vl", "hidden_size": 8_192, "vision_config": {name: 64}}
    )


def test_llama_4_and_inkling_2_count_rows_and_columns_from_one() -> None:
    llama = built("llama4_vision_model")
    scheme = read_config(record_of(llama)).main.scheme
    assert isinstance(scheme, RopeSectionsConfig)
    table = rotary_of("llama4_vision_model", llama)(torch.zeros(1))[:, 0]
    assert torch.equal(table[-1], torch.ones_like(table[-1]))  # the class token
    frequencies = scheme.frequencies().inv_freq.float()
    torch.testing.assert_close(table[0].angle(), frequencies, rtol=1e-6, atol=0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "patch_size": 2}
    inkling = module_of("inkling2_vision").Inkling2VisionModel(built("inkling2_vision", **sizes))
    taken: list[torch.Tensor] = []
    inkling.rotary_emb.register_forward_pre_hook(lambda _, given: taken.append(given[1]))
    inkling(torch.zeros(1, 4, 4, 3), torch.tensor([[1, 1, 1]]))
    assert taken[0].tolist() == [[0, 0], [1, 1], [1, 2], [2, 1], [2, 2]]


def test_image_and_patch_give_the_grid() -> None:
    config = {"model_type": "dinov3_vit", "image_size": 448, "patch_size": 14}
    scheme = read_config(config).main.scheme
    assert isinstance(scheme, RopeSectionsConfig)
    assert (scheme.grid, scheme.base) == (32, 100.0)
    assert read_config(config | {"image_size": [448, 448]}).main.scheme == scheme
    assert "in a grid of 1 column." in read_config(config | {"image_size": 16}).notes[0]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"num_attention_heads": 5}, "must divide hidden_size"),
        ({"num_attention_heads": 512}, "4 divides"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "must be one of axial"),
        ({"image_size": 0}, "image_size"),
        ({"image_size": 8}, "at least patch_size 16"),
        ({"sliding_window": 8}, "sliding_window"),
        ({"head_dim": 32}, "takes no other width"),
        ({"model_type": "exaone4_5_vision", "num_key_value_heads": None}, "takes no null"),
        (
            {"model_type": "qwen2_5_vl_vision", "fullatt_block_indexes": [-1]},
            r"a list of .*, got \[-1\]",
        ),
        ({"model_type": "dinov3_vit", "image_size": [224, 448]}, "must be of a square"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigFileError, match=words):
        read_config({"model_type": "pixtral"} | keys)


@pytest.mark.parametrize("model_type", ["gemma4_vision", "idefics_perciever", "sam3_vit_model"])
def test_other_layouts_of_axes_are_refused_by_name(model_type: str) -> None:
    with pytest.raises(ConfigFileError, match=f'"{model_type}" is not read'):
        read_config({"model_type": model_type})
    assert module_of(model_type)
