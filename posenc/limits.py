"""Limits of lengths, widths and sizes that several modules share, and checks of arguments by them."""

from collections.abc import Iterable

from posenc.errors import SchemeArgumentError, quoted
from posenc.fields import FloatRange

MAX_POSITION = 2**31 - 1  # exact phases hold for |position| <= this
MAX_DIM = 65_536
MAX_TABLE_ELEMENTS = 2**31  # length * dim of one table (8 GiB in float32)
MAX_HEADS = 1_024
MIN_TURNS, MAX_TURNS = 1e-6, 1e6  # within the trained length, at the ends of a scaling's ramp
MIN_ATTENTION_FACTOR, MAX_ATTENTION_FACTOR = 0.01, 100.0  # of queries and of keys
MAX_ATTENTION_WEIGHT = 10.0  # of ln(factor), DeepSeek's mscale
MIN_BASE, MAX_BASE = 1.0, 1e12
BASE = FloatRange(low=MIN_BASE, high=MAX_BASE, closed=False, label="Base")
MAX_SCALE_FACTOR = 4_096.0  # of a RoPE scaling
MAX_PAIR_FACTOR = 1e6  # of one pair, where every pair has its own
MAX_AXES_OF_POSITION = 4  # of RoPE in sections
MAX_GRID = 4_096  # columns of its grid
MAX_CURVE_LENGTH = 2**22  # an offset curve: 64 MiB for each head that is averaged
MAX_VECTOR_ELEMENTS = 2**28  # position vectors that grow with every position: 2 GiB
MAX_KERNEL_LENGTH = 16_384  # a dense (T, T) float64 kernel: 2 GiB
MAX_PROBED_POSITIONS = 1_024  # that positions are read back from: a second, by the cube
MAX_TRAIN_LENGTH = 1_048_576
TABLE = r"table-[0-9a-f]{12}"  # the name of a table in memory, made of its content
RUN = r"run-[0-9a-f]{20}"  # the name of the table or the parameters of a run

# Training.
MIN_RUN_TOKENS, MAX_RUN_TOKENS = 16, 8_192  # of a training sequence
MAX_RUN_BYTES = 256 * 2**20  # of one file of a run: a million steps take a fiftieth
MAX_RUN_ROWS = 1_200_000  # of that file: a loss for each of a million steps, and the scores

# Files.
MAX_CONFIG_BYTES = 2**20  # of a config.json
MAX_HUB_BYTES = 64 * 2**20  # of one table that is fetched from the Hub, its file's header included
MAX_FILE_BYTES = 2 * 2**30
MAX_SHARD_BYTES = 256 * 2**30  # of a file of a checkpoint, of which single tensors are read
MAX_INDEX_BYTES = 32 * 2**20  # of the index of a checkpoint of many files
MAX_HEADER_BYTES = 4 * 2**20
MAX_HEADER_VALUES = 400_000  # brackets and commas, also in texts
MAX_TENSORS = 20_000
MAX_TENSOR_NAME = 256  # characters
MAX_AXES = 32  # of a tensor that is listed
MAX_RANK = 4  # axes of a tensor that is read
MAX_TENSOR_ELEMENTS = 64 * 2**20


def check_count(name: str, value: int, low: int, high: int) -> int:
    """Return `value` if it is a whole number in [low, high], else raise SchemeArgumentError."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SchemeArgumentError(
            f"{name} must be a whole number from {low:,} to {high:,}, got {quoted(value)}."
        )
    return value


def check_flag(name: str, value: bool) -> None:
    """Raise SchemeArgumentError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise SchemeArgumentError(f"{name} must be True or False, got {quoted(value)}.")


def check_choice(name: str, value: str, options: Iterable[str]) -> None:
    """Raise SchemeArgumentError unless `value` is one of these words."""
    words = [*options]
    if not isinstance(value, str) or value not in words:
        listed = ", ".join(map(repr, words))
        raise SchemeArgumentError(f"{name} must be one of {listed}, got {quoted(value)}.")


def check_head(head: int | str, heads: int = MAX_HEADS) -> None:
    """Raise SchemeArgumentError unless `head` is "mean" or an index of one of `heads` heads."""
    if head == "mean":
        return
    if isinstance(head, bool) or not isinstance(head, int) or not 0 <= head < heads:
        raise SchemeArgumentError(
            f"head must be 'mean' or a whole number from 0 to {heads - 1:,}, got {quoted(head)}."
        )


def check_seed(value: int) -> int:
    """Return `value` if it is a seed of a generator, else raise SchemeArgumentError."""
    return check_count("seed", value, 0, 2**63 - 1)


def check_width(name: str, value: int) -> int:
    """Return `value` if it is an even width, else raise SchemeArgumentError."""
    check_count(name, value, 2, MAX_DIM)
    if value % 2:
        raise SchemeArgumentError(
            f"{name} must be even, because sines and cosines come in pairs, got {value}."
        )
    return value


def check_base(value: float) -> float:
    """Return `value` if it is a usable base (> 1, finite, at most 1e12), else raise."""
    if not BASE.accepts(value):
        raise SchemeArgumentError(f"base must be {BASE.allowed()}, got {quoted(value)}.")
    return float(value)


def check_elements(rows: int, width: int) -> None:
    """Raise SchemeArgumentError for a table of more numbers than any table may have."""
    if rows * width > MAX_TABLE_ELEMENTS:
        raise SchemeArgumentError(
            f"a table may have at most {MAX_TABLE_ELEMENTS:,} numbers, got {rows:,} x {width:,}."
        )


def check_table(length: int, dim: int, start: int = 0) -> None:
    """Raise SchemeArgumentError unless a (length, dim) table from position `start` is allowed."""
    check_count("length", length, 0, MAX_POSITION)
    check_width("dim", dim)
    check_count("start", start, -MAX_POSITION, MAX_POSITION)
    if start + length - 1 > MAX_POSITION:
        raise SchemeArgumentError(
            f"positions must stay at or below {MAX_POSITION:,}, got start {start:,} and length {length:,}."
        )
    check_elements(length, dim)
