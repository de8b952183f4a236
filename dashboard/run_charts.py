"""The chart of trained models by length, which several pages show."""

from collections.abc import Sequence

from dashboard import run_descriptions
from dashboard.blocks import Chart
from dashboard.charts import loss, theme
from posenc.lab.summary import Curve


def by_length(
    key: str, curves: Sequence[Curve], *, perplexity: bool = False, where: str = ""
) -> Chart:
    """Return loss, perplexity or accuracy by length or steps, a line per scheme and variant.

    curves: of one measure, at least one. where: the context at which loss by steps is measured.
    """
    several = any(len(point.by_trial) > 1 for curve in curves for point in curve.points)
    measure = curves[0].measure
    # Beside that by context.
    by = {"position": ", by position", "steps": f", at {where} by steps"}.get(measure, "")
    frame = loss.frame(curves, perplexity=perplexity, dots=several)

    def draw(kinds: tuple[str, ...]) -> theme.Spec:
        return loss.by_length(frame, kinds, measure, perplexity=perplexity)

    columns = loss.COLUMNS | {"read": "read", "chance": "", "by_position": ""} | loss.names(measure)
    columns |= {"y": "perplexity"} if perplexity else {}
    columns |= dict.fromkeys(loss.dots_of(frame), "")
    return Chart(
        key=key,
        title=f"Models trained on: {run_descriptions.title(curves[0].specification)}{by}",
        frame=frame,
        names=tuple(dict.fromkeys(curve.specification.scheme.kind for curve in curves)),
        draw=draw,
        columns={name: text for name, text in columns.items() if name in frame},
        x="",
        sizes=run_descriptions.sizes(curves)
        + several * "; dots: single trials; band: lowest to highest",
    )
