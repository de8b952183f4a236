"""Blocks in Streamlit: a fault in one stays in its place, and headings explain themselves."""

import json

import pandas as pd
from streamlit.testing.v1 import AppTest


def page_with_a_fault_in_a_column() -> None:
    """Draw a page whose left column has a part that the renderer does not know."""
    from dashboard.blocks import Columns, Live, Page, Text
    from dashboard.render import Renderer

    columns = Columns(((Live("unknown"), Text("Left.")), (Text("Right."),)))
    page = Page(title="Title", headline="It is so.", blocks=(columns, Text("Below.")))
    Renderer(page.title, {}, presenting=False).page(page)


def test_fault_in_a_column_is_told_there_and_leaves_every_other_block() -> None:
    at = AppTest.from_function(page_with_a_fault_in_a_column, default_timeout=60).run()
    assert not at.exception
    assert [text.value for text in at.markdown[1:]] == ["Left.", "Right.", "Below."]
    left, right = at.columns
    (told,) = left.error
    assert "incident" in told.value
    assert not right.error


def page_with_a_table() -> None:
    """Draw a small table whose headings say more of themselves."""
    import pandas as pd
    import streamlit as st

    from dashboard.render import findings

    frame = pd.DataFrame({"method": ["YaRN"], "training": ["none"], "error": [0.5]})
    findings(frame, st, {"method": "", "training": "The least training.", "error": "The mean."})


def page_with_small_numbers() -> None:
    """Draw a small table of numbers of any size."""
    import pandas as pd
    import streamlit as st

    from dashboard.render import findings

    frame = pd.DataFrame({
        "scheme": ["RoPE", "ALiBi"], "residual": [2.1e-8, 0.5], "perplexity": [12_345.6, None],
        "share": [0.25, 0.0], "change": [2.41, 0.0187], "loss": [3.3, 3.58], "size": [32.0, 8.0],
        "distance": [1.35, 27.8],
    })  # fmt: skip
    findings(frame, st, {"residual": "Of the fit."})


def test_small_and_large_numbers_of_a_table_are_written_as_in_sentences() -> None:
    (table,) = AppTest.from_function(page_with_small_numbers, default_timeout=60).run().dataframe
    shown = table.value
    assert [*shown["residual"]] == ["2.1\u00a0×\u00a010⁻⁸", "0.5"]
    assert shown["perplexity"][0] == "12,346"
    assert pd.isna(shown["perplexity"][1])
    assert [*shown["share"]] == [0.25, 0.0]  # a number, which sorts as one
    columns = json.loads(table.proto.columns)
    assert columns["residual"]["alignment"] == "right"
    assert columns["residual"]["help"] == "Of the fit."
    formats = {
        name: column.get("type_config", {}).get("format") for name, column in columns.items()
    }
    assert formats["share"] == "%.3f"  # 0.250: three digits
    assert formats["change"] == "%.3g"  # with the decimals of 2.41, 0.0187 would be 0.02
    assert formats["loss"] == "%.2f"  # 3.30 under 3.58
    assert formats["distance"] == "%.3g"  # 1.35, as a sentence beside it says
    assert formats["size"] == "%.3g"  # whole numbers stay whole


def test_headings_of_a_table_explain_themselves() -> None:
    (table,) = AppTest.from_function(page_with_a_table, default_timeout=60).run().dataframe
    columns = json.loads(table.proto.columns)
    helps = {name: column.get("help") for name, column in columns.items()}
    assert {name: text for name, text in helps.items() if text} == {
        "training": "The least training.",
        "error": "The mean.",
    }
