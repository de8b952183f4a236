"""Limits of the dashboard: what one visitor of a shared server may ask for, so that pages stay quick."""

from dashboard.settings.setting import MAX_SHOWN_ELEMENTS

MAX_DRAWN_CELLS = 512  # rows and columns of one drawn matrix; longer ranges are shown as a window
MAX_PROBED_ROWS = 512  # positions that are read back on a page, see also `probed_rows`

MAX_UPLOAD_BYTES = 50 * 2**20
MAX_HELD_UPLOADS = 256 * 2**20  # of all visitors together, until their tables are in use

# Training that a visitor may start.
MAX_RUNNING = 1  # background processes that train
MAX_WAITING = 8  # jobs that wait for one
MOST_WAITING = 64  # that the environment may ask for
MAX_TEXT_BYTES = 10 * 2**20
MAX_RUN_SECONDS = 4 * 3_600  # of one start, by the estimate made before it
MAX_RUN_WIDTH = 256
MAX_RUN_LAYERS = 6
MAX_RUN_HEADS = 16
MAX_RUN_LENGTH = 256
MAX_RUN_STEPS = 5_000
MAX_RUN_SEEDS = 5
MAX_RUN_RATES = 6  # learning rates of one start


def probed_rows(width: int) -> int:
    """Return how many rows of a table of this width a page reads positions back from."""
    return min(MAX_PROBED_ROWS, MAX_SHOWN_ELEMENTS // width)
