"""The parts of pages that only a running server can draw, each a function that `render.LIVE` names."""
