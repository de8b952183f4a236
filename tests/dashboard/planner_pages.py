"""What tests of Extend a model's context read from its page."""

import pandas as pd

from dashboard.blocks import Block, Controls, Drawer, Findings, Page, Text, walk
from dashboard.pages.extend_context import data
from dashboard.pages.extend_context.options import Options
from tests.dashboard.called_pages import block_of, blocks
from tests.dashboard.pages import as_read

PAGE = "context_planner"
SHORT = Options(context=16_384)  # whose base is found at once


def findings(shown: Page, key: str) -> pd.DataFrame:
    found: Findings = block_of(shown, Findings, key)
    return found.frame


def controls(shown: Page) -> list[str]:
    return [name for block in blocks(shown, Controls) for name in block.names]


def drawer_texts(drawer: Block) -> list[str]:
    assert isinstance(drawer, Drawer)
    return [as_read(block.text) for block in walk(drawer.make()) if isinstance(block, Text)]


def searched(options: Options, model: str) -> Options:
    """Return the options once the long search was asked for."""
    asked = data.search_of(model, options.context)
    return Options(context=options.context, methods=options.methods, searched=asked)
