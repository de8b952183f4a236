"""What the rows of a table hold: NaN, infinities, zeros, or the same numbers all over."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TableCheck:
    """What the rows of a table hold; a row with both NaN and Inf counts as a NaN row."""

    rows: int
    nan_rows: int
    inf_rows: int
    zero_rows: int
    all_rows_equal: bool  # of the finite rows, where there are two or more
    largest: float  # largest finite magnitude

    @classmethod
    def of(cls, table: Float[Tensor, "n d"]) -> "TableCheck":
        """Count NaN, Inf and zero rows of `table`, in pieces that stay small beside it."""
        nan_rows = inf_rows = zero_rows = 0
        largest, equal, first = 0.0, True, None
        for part in table.split(max(1, 2**18 // max(1, table.shape[1]))):
            nan = part.isnan().any(1)
            nan_rows += int(nan.sum())
            infinite = part.isinf().any(1) & ~nan
            inf_rows += int(infinite.sum())
            zero_rows += int((part == 0).all(1).sum())
            finite = part[~(nan | infinite)]
            if first is None and len(finite):
                first = finite[0]
            equal = equal and bool((finite == first).all()) if len(finite) else equal
            if part.numel():
                numbers = part.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
                largest = max(largest, float(numbers.abs().max()))
        equal = equal and len(table) - nan_rows - inf_rows > 1
        return cls(len(table), nan_rows, inf_rows, zero_rows, equal, largest)

    @property
    def finite_rows(self) -> int:
        """Rows without NaN and Inf, over which statistics can be taken."""
        return self.rows - self.nan_rows - self.inf_rows

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence per fault; empty for a table without any."""
        found = []
        if self.nan_rows:
            found.append(f"{_rows(self.nan_rows, self.rows)} NaN.")
        if self.inf_rows:
            found.append(f"{_rows(self.inf_rows, self.rows)} infinite values.")
        if self.rows and not self.finite_rows:
            found.append("No row is finite, so there is nothing to compare.")
        if self.rows and self.zero_rows == self.rows:
            found.append("Every row is zero, so cosine similarity is not defined.")
        elif self.zero_rows:
            found.append(f"{_rows(self.zero_rows, self.rows)} only zeros and no cosine similarity.")
        if self.all_rows_equal and self.zero_rows < self.rows:
            which = "rows" if self.finite_rows == self.rows else "finite rows"
            found.append(f"All {which} are equal: the table tells no position from another.")
        return tuple(found)


def _rows(count: int, rows: int) -> str:
    return f"{count:,} of {rows:,} rows {'holds' if count == 1 else 'hold'}"
