"""Finding position tables: names and shapes of published checkpoints, and what is not offered."""

import pytest
import torch

from posenc.interop.position_tables import read_position_table
from posenc.interop.safetensors_file import read_header
from posenc.interop.safetensors_header import Header, TensorEntry
from posenc.interop.table_candidates import (
    MAX_POSSIBLE,
    Confidence,
    find_position_tables,
    relative_tables,
    table_shape,
)
from tests.table_files import file_of, refusal


def header_of(shapes: dict[str, tuple[int, ...]], dtype: str = "F32") -> Header:
    """Make a header of these tensors, as far as names and shapes go."""
    return Header({n: TensorEntry(n, dtype, shape, 0, 0) for n, shape in shapes.items()}, {}, 0)


# Names and shapes of published checkpoints: rows before position 0, and the family named.
PUBLISHED = [
    ("embeddings.position_embeddings.weight", (512, 384), 0, "BERT"),
    ("bert.embeddings.position_embeddings.weight", (512, 768), 0, "BERT"),
    ("module.bert.embeddings.position_embeddings.weight", (512, 768), 0, "BERT"),
    ("distilbert.embeddings.position_embeddings.weight", (512, 768), 0, "BERT"),
    ("bert.embeddings.position_embeddings.weight", (4096, 768), 0, "BERT"),
    ("embeddings.position_embeddings.weight", (514, 768), 2, "RoBERTa"),
    ("roberta.embeddings.position_embeddings.weight", (514, 768), 2, "RoBERTa"),
    ("roberta.embeddings.position_embeddings.weight", (512, 768), 2, "RoBERTa"),
    ("longformer.embeddings.position_embeddings.weight", (4098, 768), 2, "RoBERTa"),
    ("esm.embeddings.position_embeddings.weight", (1026, 1280), 2, "RoBERTa"),
    ("mpnet.embeddings.position_embeddings.weight", (514, 768), 2, "RoBERTa"),
    ("wpe.weight", (1024, 768), 0, "GPT-2"),
    ("transformer.wpe.weight", (1024, 768), 0, "GPT-2"),
    ("_orig_mod.transformer.wpe.weight", (256, 384), 0, "GPT-2"),
    ("transformer.wpe.weight", (2048, 2048), 0, "GPT-2"),
    ("transformer.positions_embed.weight", (512, 768), 0, "GPT"),
    ("model.decoder.embed_positions.weight", (2050, 768), 2, "BART, OPT and kin"),
    ("model.encoder.embed_positions.weight", (1026, 1024), 2, "BART, OPT and kin"),
    ("model.decoder.embed_positions.weight", (448, 384), 0, "Whisper and kin"),
    ("model.encoder.embed_positions.weight", (1500, 384), 0, "Whisper and kin"),
    ("vit.embeddings.position_embeddings", (1, 197, 768), 1, "ViT"),
    ("deit.embeddings.position_embeddings", (1, 198, 768), 2, "ViT"),
    ("embeddings.position_embeddings", (1, 1370, 768), 1, "ViT"),
    ("vision_model.embeddings.position_embedding.weight", (50, 768), 1, "CLIP"),
    ("vision_model.embeddings.position_embedding.weight", (577, 1024), 1, "CLIP"),
    ("vision_model.embeddings.position_embedding.weight", (729, 1152), 0, "CLIP"),
    ("text_model.embeddings.position_embedding.weight", (77, 512), 0, "CLIP text"),
    ("text_model.embeddings.position_embedding.weight", (64, 768), 0, "CLIP text"),
    ("embeddings.position_embedding.weight", (77, 512), 0, "CLIP text"),
    ("positional_embedding", (77, 512), 0, "CLIP text or Whisper"),
    ("visual.positional_embedding", (50, 768), 1, "CLIP"),
    ("pos_embed", (1, 197, 768), 1, "ViT"),
    ("pos_embed", (1, 196, 768), 0, "ViT"),
    ("decoder_pos_embed", (1, 197, 512), 1, "ViT"),
    ("encoder.pos_embedding", (1, 197, 768), 1, "ViT"),
    (
        "audio_spectrogram_transformer.embeddings.position_embeddings",
        (1, 1214, 768),
        2,
        "AST",
    ),
    ("position.weight", (512, 64), 0, "posenc"),
]


@pytest.mark.parametrize(("name", "shape", "first_row", "family"), PUBLISHED)
def test_published_tables_are_found_with_their_first_row(
    name: str, shape: tuple[int, ...], first_row: int, family: str
) -> None:
    others = {
        "embeddings.word_embeddings.weight": (30_522, shape[-1]),
        "encoder.layer.0.attention.self.query.weight": (shape[-1], shape[-1]),
        "embeddings.cls_token": (1, 1, shape[-1]),
        "lm_head.weight": (30_522, shape[-1]),
    }
    found = find_position_tables(header_of({**others, name: shape}))
    assert len(found) == 1
    candidate = found[0]
    assert (candidate.name, candidate.rows, candidate.width) == (name, *shape[-2:])
    assert (candidate.first_row, candidate.family) == (first_row, family)
    assert candidate.positions == candidate.rows - first_row
    assert candidate.confidence is Confidence.KNOWN
    assert (candidate.note is not None) == (first_row > 0 or family in ("ViT", "CLIP"))


def test_best_candidates_come_first_and_unknown_names_last() -> None:
    shapes = {
        "some.table": (64, 8),
        "embeddings.x_position_embeddings.weight": (1024, 16),
        "my_pos_emb.weight": (32, 16),
        "wpe.weight": (128, 16),
        "decoder.pos_emb": (1, 32, 16),
        "scale": (16,),
        "grid": (4, 4, 16),
        "picture_pos_embed": (1, 16, 14, 14),
    }
    found = find_position_tables(header_of(shapes))
    assert [(candidate.name, candidate.confidence) for candidate in found] == [
        ("wpe.weight", Confidence.KNOWN),
        ("embeddings.x_position_embeddings.weight", Confidence.NAMED),
        ("my_pos_emb.weight", Confidence.NAMED),
        ("decoder.pos_emb", Confidence.NAMED),
        ("some.table", Confidence.POSSIBLE),
    ]


def test_at_most_32_unknown_matrices_are_offered() -> None:
    shapes = {f"matrix_{number}": (8, 8) for number in range(100)}
    found = find_position_tables(header_of({**shapes, "wpe.weight": (8, 8)}))
    assert [candidate.name for candidate in found[:2]] == ["wpe.weight", "matrix_0"]
    assert len(found) == 1 + MAX_POSSIBLE


RELATIVE = [
    ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (32, 12), "T5"),
    (
        "swin.encoder.layers.0.blocks.0.attention.self.relative_position_bias_table",
        (169, 3),
        "Swin",
    ),
    ("deberta.encoder.rel_embeddings.weight", (512, 768), "vectors per offset"),
    ("encoder.layers.0.attn.rel_pos_h", (27, 64), "vectors per offset along one axis"),
    ("encoder.layers.0.self_attn.distance_embedding.weight", (73, 64), "Shaw"),
    ("transformer.r_w_bias", (16, 64), "Transformer-XL"),
    ("model.layers.0.self_attn.rotary_emb.inv_freq", (64,), "rotary"),
]


@pytest.mark.parametrize(("name", "shape", "what"), RELATIVE)
def test_a_relative_table_is_named_as_what_it_is(
    name: str, shape: tuple[int, ...], what: str
) -> None:
    header = header_of({"shared.weight": (32_128, 768), name: shape})
    found = relative_tables(header)
    assert [relative.name for relative in found] == [name]
    assert what in found[0].what
    sentence = refusal(lambda: find_position_tables(header))
    assert sentence.startswith(f"The file holds no position table: {name} holds ")
    assert what in sentence


def test_a_position_table_beside_relative_tables_is_found() -> None:
    shapes = {
        "mpnet.embeddings.position_embeddings.weight": (514, 768),
        "mpnet.encoder.relative_attention_bias.weight": (32, 12),
    }
    found = find_position_tables(header_of(shapes))
    assert [candidate.name for candidate in found] == list(shapes)[:1]
    assert len(relative_tables(header_of(shapes))) == 1


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("embeddings.word_embeddings.weight", (30_522, 768)),
        ("embeddings.token_type_embeddings.weight", (2, 768)),
        ("model.embed_tokens.weight", (32_000, 4_096)),
        ("transformer.wte.weight", (50_257, 768)),
        ("shared.weight", (32_128, 768)),
        ("lm_head.weight", (50_257, 768)),
        ("bert.pooler.dense.weight", (768, 768)),
        ("model.query_position_embeddings.weight", (100, 256)),
        ("shared_image_embedding.positional_embedding", (2, 128)),
        ("positional_encoder.projector.weight", (32, 2)),
        ("encoder.layers.3.w1.weight", (64, 64)),
        ("h.0.attn.bias", (1, 1, 1024, 1024)),
    ],
)
def test_other_matrices_are_not_offered(name: str, shape: tuple[int, ...]) -> None:
    sentence = refusal(lambda: find_position_tables(header_of({name: shape})))
    assert sentence.startswith("The file holds no position table")


def test_finding_nothing_says_shortly_what_there_is() -> None:
    shapes = {f"layers.{number}.mlp.weight\u202e": (64, 64) for number in range(1_000)}
    sentence = refusal(lambda: find_position_tables(header_of(shapes)))
    assert sentence == (
        "The file holds no position table; it holds layers.0.mlp.weight\\u202e [64, 64], "
        "layers.1.mlp.weight\\u202e [64, 64], layers.2.mlp.weight\\u202e [64, 64] and 997 more."
    )
    assert "no tensors" in refusal(lambda: find_position_tables(header_of({})))


def test_a_quantised_position_table_is_named_with_the_reason() -> None:
    header = header_of({"wpe.weight": (8, 4)}, "I8")
    assert "wpe.weight is quantised: I8 needs a scale" in refusal(
        lambda: find_position_tables(header)
    )


@pytest.mark.parametrize(
    ("shape", "fragment"),
    [
        ((0, 768), "nothing to show"),
        ((768, 0), "nothing to show"),
        ((), "nothing to show"),
        ((768,), "nothing to show"),
        ((1, 0, 768), "nothing to show"),
        ((1, 768), "nothing to show"),
        ((1, 1, 768), "nothing to show"),
        ((2, 3, 4, 5), "listed only"),
        ((2, 3, 4), "listed only"),
        ((1, 64, 64, 768), "listed only"),
        ((512, 1), "listed only"),
        ((1, 512, 1), "listed only"),
    ],
)
def test_every_odd_shape_has_a_named_outcome(shape: tuple[int, ...], fragment: str) -> None:
    content = file_of({"wpe.weight": torch.zeros(shape)})
    entry = read_header(content).tensors["wpe.weight"]
    assert fragment in refusal(lambda: table_shape(entry))
    assert fragment in refusal(lambda: find_position_tables(read_header(content)))
    assert fragment in refusal(lambda: read_position_table(content, "wpe.weight"))


@pytest.mark.parametrize("leading", [1, 2])
def test_leading_axes_of_one_are_dropped_with_a_note(leading: int) -> None:
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    content = file_of({"wpe.weight": table.reshape((1,) * leading + (6, 4))})
    read = read_position_table(content)
    assert torch.equal(read.table, table)
    assert read.notes == ("The leading axis of size 1 was dropped.",)
