"""Frames on their way to the browser: converted once, to what Streamlit would send."""

import gc
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from streamlit import dataframe_util

from dashboard import encoding, frames, kept
from dashboard.encoding_choice import EncodingChoice
from dashboard.kept import once
from posenc import Setting

FRAMES = {
    "a long one": pd.DataFrame({"x": np.arange(5_000, dtype=np.int32), "y": np.linspace(0, 1, 5_000)}),
    "names": pd.DataFrame({"scheme": pd.Categorical(["a", "b", "a"]), "word": ["x", "", "é"]}),
    "blanks": pd.DataFrame({"y": [0.5, np.nan], "word": ["x", None], "far": [True, False]}),
    "rows left out": pd.DataFrame({"y": [0.5, 1.5, 2.5]})[lambda frame: frame["y"] > 1],
    "no rows": pd.DataFrame({"y": np.zeros(0, np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_what_is_sent_is_what_streamlit_would_send(name: str) -> None:
    frame = FRAMES[name]
    sent = frames.arrow(frame)
    assert isinstance(sent, pa.Table)
    assert dataframe_util.convert_anything_to_arrow_bytes(
        sent
    ) == dataframe_util.convert_pandas_df_to_arrow_bytes(frame)
    assert frames.arrow(frame) is sent


def test_a_column_of_words_and_numbers_is_left_to_streamlit() -> None:
    mixed = pd.DataFrame({"value": [1, "one"]})
    assert frames.arrow(mixed) is mixed


def test_what_is_made_of_a_frame_goes_with_it() -> None:
    @once
    def all_of(frame: pd.DataFrame) -> pd.DataFrame:
        return frame

    gc.disable()
    try:
        frame = pd.DataFrame({"y": [1.0, 2.0]})
        gone = weakref.ref(frame), weakref.ref(frames.named(frame.assign(word="a")))
        assert all_of(frame) is all_of(frame) is frame
        assert frames.filled(frame) is frame
        frames.arrow(frame)
        del frame
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_columns_without_anything_are_left_out_of_a_table() -> None:
    frame = pd.DataFrame(
        {"scheme": ["a", "b"], "none": [np.nan, np.nan], "some": [np.nan, 0.0], "": ["", ""]}
    )
    assert list(frames.filled(frame)) == ["scheme", "some"]


def test_a_table_of_numbers_has_words_and_no_categories() -> None:
    names = pd.Categorical(["a", "b", "a"])
    frame = pd.DataFrame({"scheme": names, "x": [1, 2, 3], "boundary": np.nan, "last": 3})
    shown = frames.plotless(frame, {"x": "distance"})
    assert list(shown) == ["scheme", "distance"]
    assert shown["scheme"].dtype == "str"
    assert shown.to_csv(index=False) == "scheme,distance\na,1\nb,2\na,3\n"


@pytest.mark.parametrize(("count", "most"), [(1, 4), (4, 4), (5, 4), (5_000, 1_024)])
def test_points_of_a_line_are_spread_evenly_with_both_ends(count: int, most: int) -> None:
    found = frames.evenly(count, most)
    assert len(found) == min(count, most)
    assert (found[0], found[-1]) == (0, count - 1)
    steps = np.diff(found)
    assert count == 1 or steps.max() - steps.min() <= 1


def test_a_reading_of_matrices_takes_less_than_their_numbers() -> None:
    read = encoding.read(Setting(), EncodingChoice())
    numbers = sum(
        rows * columns * 8 for rows, columns in (one.shape for one in read.drawn.values())
    )
    assert kept.weight(read) < numbers / 3
