"""Which variants of schemes run the code of another one, number for number.

Tests that try out code in every precision, place and shape (marked `over_code`) leave them out; all
other tests, the laws and the numbers above all, are run for every variant. A scheme that is not named
here is run through everything. tests/test_stand_ins.py holds each of these to what is said of it. The
lab trains a scheme by its hooks alone, and these have no weights: so much for training and resuming;
what a scaling does at another length than the trained one is evaluated for every one of them.
"""

# What a rotation by a scaled ladder consists of, beside its code: whose numbers may differ.
LADDER = frozenset({"config", "phases", "attention_factor"})
GRID = LADDER | {"axes", "grid"}

# The variant: who is run in its place. Of YaRN both differ from plain RoPE: it has a ladder that was
# given number by number, and an attention factor. Its own variants are further such numbers.
OF_LADDERS = dict.fromkeys(
    (
        "rope_linear",
        "rope_ntk",
        "rope_dynamic",
        "rope_yarn.truncate=False",
        "rope_yarn_paper",
        "rope_longrope",
        "rope_longrope.short_factor=(1.0, 1.5, 2.5, 4.0)",
        "rope_longrope.long_factor=(1.0, 1.5, 2.5, 4.0)",
        "rope_llama3",
    ),
    "rope_yarn",
)
# Sections of two axes on a grid: how many pairs are whose, in which turn, how wide the grid is.
OF_GRIDS = dict.fromkeys(
    (
        "rope_sections.sections=(1, 3)",
        "rope_sections.grid=2",
        "rope_sections.interleaved=True",
        "rope_sections.ladders=each",
    ),
    "rope_sections",
)
STAND_INS = OF_LADDERS | OF_GRIDS
