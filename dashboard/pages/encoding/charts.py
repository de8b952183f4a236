"""Charts of the page Encoding: constant specifications, into which its frames are poured."""

import altair as alt

from dashboard.charts.theme import (
    COLOURS,
    HEIGHT,
    Spec,
    cached_spec,
    decades,
    line_style,
    scheme_colour,
    scheme_points,
    shown,
    spec_of,
)


@cached_spec
def slopes(_: tuple[str, ...]) -> Spec:
    """Return the slope of every head as a bar. Frame: scheme, head, slope."""
    bars = (
        alt.Chart()
        .mark_bar(color=COLOURS["alibi"])
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("slope:Q", title="subtracted per token of distance"),
            tooltip=[
                alt.Tooltip("scheme:N", title="scheme"),
                "head:Q",
                alt.Tooltip("slope:Q", format=".3g"),
            ],
        )
    )
    return spec_of(bars.properties(height=HEIGHT))


@cached_spec
def wavelengths(kinds: tuple[str, ...]) -> Spec:
    """Return the wavelength of every pair, log scale, the training length as a dashed line.

    Frame: scheme, pair, place, wavelength, turns, share, trained.
    """
    chosen, style = shown(kinds, line_style(kinds))
    line = (
        alt.Chart()
        .mark_line(point=scheme_points(kinds, size=6))  # lines that coincide stay in sight
        .encode(
            x=alt.X(
                "place:Q",
                title="pair / number of pairs, fastest first",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", tickCount=5),
            ),
            y=alt.Y(
                "wavelength:Q",
                title="positions per turn",
                scale=alt.Scale(type="log"),
                axis=decades("~s"),
            ),
            color=scheme_colour(kinds),
            tooltip=[
                alt.Tooltip("scheme:N", title="scheme"),
                alt.Tooltip("pair:Q", title="pair"),
                alt.Tooltip("wavelength:Q", format=",.3~r", title="positions per turn"),
                alt.Tooltip("turns:Q", format=",.3~r", title="turns in training"),
                alt.Tooltip("share:Q", format=".3~%", title="share of a turn in training"),
            ],
            **style,
        )
        .add_params(chosen)
    )
    trained = alt.Chart().mark_rule(aria=False, strokeDash=[5, 4], color="gray")
    trained = trained.encode(y="min(trained):Q", detail="trained:N")
    return spec_of(alt.layer(line, trained).properties(height=HEIGHT))
