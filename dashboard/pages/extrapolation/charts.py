"""Charts of trained models: what was measured of them, and the loss of one in progress."""

import functools

import altair as alt

from dashboard.charts.theme import COLOURS, HEIGHT, Spec, boundary_rule, scheme_colour, spec_of

# The first is how a model was trained.
_READS = {
    "solid": [1, 0], "dashed": [6, 3], "dotted": [2, 2], "dash and dot": [9, 3, 2, 3], "sparse": [1, 5]
}  # fmt: skip


@functools.cache
def measured(
    kinds: tuple[str, ...],
    reads: tuple[str, ...],
    x_title: str,
    y_title: str,
    *,
    log: bool = True,
    chance: bool = False,
) -> Spec:
    """Lines over a length, coloured by scheme and dashed by how it was read; `log` is of the x axis.

    Frame: scheme, read, x, y, low, high (the band of seeds), boundary, and where `chance` is drawn,
    chance: the share that guessing gets right.
    """
    scale = alt.Scale(type="log", base=2, nice=False) if log else alt.Scale(nice=False)
    x = alt.X("x:Q", title=x_title, scale=scale)
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=False))
    colour = scheme_colour(kinds)
    strokes = [*_READS.values()]
    dashes = [strokes[i % len(strokes)] for i in range(len(reads))]
    # Vega draws no symbols for a legend of dashes alone: `strokes` says them in words.
    read = alt.StrokeDash("read:N", scale=alt.Scale(domain=list(reads), range=dashes), legend=None)
    band = (
        alt.Chart()
        .mark_area(opacity=0.15)
        .encode(x=x, y="low:Q", y2="high:Q", color=colour, detail="read:N")
    )
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=read,
            tooltip=[
                "scheme:N",
                "read:N",
                alt.Tooltip("x:Q", title=x_title),
                alt.Tooltip("y:Q", format=".4f", title=y_title),
                "seeds:Q",
            ],
        )
    )
    layers = [band, line, boundary_rule()]
    if chance:
        guess = alt.Chart().mark_rule(aria=False, strokeDash=[2, 3], opacity=0.7, color="gray")
        layers.append(guess.encode(y="min(chance):Q"))
    return spec_of(alt.layer(*layers).properties(height=HEIGHT + 60))


@functools.cache
def training(kind: str) -> Spec:
    """The loss of a run in progress. Frame: step, loss."""
    line = (
        alt.Chart()
        .mark_line(strokeWidth=2, color=COLOURS[kind])
        .encode(
            x=alt.X("step:Q", title="step", scale=alt.Scale(nice=False)),
            y=alt.Y("loss:Q", title="training loss, nats", scale=alt.Scale(zero=False)),
            tooltip=["step:Q", alt.Tooltip("loss:Q", format=".4f")],
        )
    )
    return spec_of(line.properties(height=HEIGHT))


def strokes(reads: tuple[str, ...]) -> str:
    """Say which stroke of `measured` is which way of reading."""
    words = [*_READS]
    parts = [f"{words[i % len(words)]}: {name}" for i, name in enumerate(reads)]
    return "Lines are " + "; ".join(parts) + "."
