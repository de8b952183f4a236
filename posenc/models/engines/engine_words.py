"""Readings of engines in words: a table with a row for each engine, and a sentence for each difference."""

from collections.abc import Collection, Sequence
from typing import Any

from posenc.models.engines.differences import REFERENCE, Difference, differences
from posenc.models.engines.reading import SOURCES, EngineReading, Refusal
from posenc.text import significant

NOT_READ = "not read"
_CHOSEN_BY = {
    "text": "by the length of the text",
    "step": "by the positions of one step",
    "served": "by the context that the server is started with",
    "nothing": "at every length",
}
_GROWTH = {
    "text": "the base grows with the text",
    "fixed": "the base is larger by a fixed amount at every length",
    "none": "the base stays as it is at every length",
}
_REFUSALS = {
    "missing": "not loaded: {key} is missing",
    "type": "not loaded: the type of {key} is not known",
    "keys": "not loaded: {key} must have type, short_factor and long_factor alone",
}
_HEADER = (
    "scaling", "base", "slowest frequency", "attention factor", "softmax scale", "context",
    "rows of its table", "LongRoPE's factors", "dynamic scaling",
)  # fmt: skip


def engine_rows(readings: Sequence[EngineReading]) -> list[dict[str, str]]:
    """Return a table with a row for each engine and kind of layer.

    A * stands beside a number that is not that of transformers 5. A column in which no engine has
    anything is left out.
    """
    marked = {(each.engine, each.layers, each.field) for each in differences(readings)}
    kinds = {reading.kind.name for reading in readings}
    rows = []
    for reading in readings:
        row = {"engine": f"{reading.engine} ({reading.release})"}
        if len(kinds) > 1:
            row["layers"] = reading.kind.name
        cells = _cells(reading, marked)
        rows.append(row | dict(zip(_HEADER, cells, strict=True)))
    used = [name for name in rows[0] if any(row[name] not in ("", NOT_READ) for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def _cells(reading: EngineReading, marked: Collection[tuple[str, str, str]]) -> list[str]:
    if not reading.is_read:
        return [NOT_READ] * len(_HEADER)
    if reading.refused is not None:
        return [refusal_words(reading.refused), *[""] * (len(_HEADER) - 1)]
    numbers = (reading.base, reading.attention_factor, reading.softmax_scale)
    base, attention, softmax = (0.0 if number is None else number for number in numbers)
    assert reading.inv_freq is not None

    def mark(text: str, *fields: str) -> str:
        keys = [(reading.engine, reading.kind.name, field) for field in fields]
        return f"{text} *" if any(key in marked for key in keys) else text

    factors, growth = reading.factors, reading.growth
    return [
        reading.rope_type,
        significant(base, 5),
        mark(significant(float(reading.inv_freq[-1]), 4), "inv_freq", "pairs"),
        mark(significant(attention, 5), "attention_factor"),
        mark(significant(softmax, 5), "softmax_scale"),
        "no limit" if reading.context is None else mark(f"{reading.context:,}", "context"),
        "" if reading.rows is None else f"{reading.rows:,}",
        mark(f"{factors}, {_chosen_by(reading)}", "factors") if factors else "",
        mark(_GROWTH[growth], "growth") if growth else "",
    ]


def _chosen_by(reading: EngineReading) -> str:
    """Return what decides between LongRoPE's lists, and the context that did."""
    served = "" if reading.served is None else f", here {reading.served:,}"
    return f"{_CHOSEN_BY[reading.chosen_by]}{served}"


def refusal_words(refusal: Refusal) -> str:
    """Return why an engine loads no such config."""
    return _REFUSALS[refusal.word].format(key=refusal.key)


def difference_sentences(readings: Sequence[EngineReading]) -> list[str]:
    """Return a sentence for each difference from transformers 5."""
    several = len({reading.kind.name for reading in readings}) > 1
    return [
        f"{each.engine}{f', {each.layers} layers' if several else ''}: {_sentence(each)}"
        for each in differences(readings)
    ]


def _sentence(each: Difference) -> str:
    value, other, ratio = each.value, each.reference, each.ratio
    if isinstance(value, str) or isinstance(other, str) or ratio is None:
        if each.field == "factors":
            return f"LongRoPE's {value or 'factors are not used'} factors in place of the {other} ones."
        own = _GROWTH.get(str(value), "there is no dynamic scaling")
        return f"{own}; in {REFERENCE}, {_GROWTH.get(str(other), 'there is no dynamic scaling')}."
    if each.field == "inv_freq":
        return (
            f"the frequencies differ from pair {each.first_pair} on, most in pair {each.pair}, which "
            f"turns {significant(ratio, 4)} times as fast as in {REFERENCE}."
        )
    if each.field == "pairs":
        return f"{value:,.0f} pairs rotate in place of {other:,.0f}."
    if each.field == "context":
        return f"it takes {value:,.0f} tokens by default, but the scaling is made for {other:,.0f}."
    name, power = (
        ("attention factor", 2) if each.field == "attention_factor" else ("softmax scale", 1)
    )
    return (
        f"the {name} is {significant(value, 5)} in place of {significant(other, 5)}: rotated logits are "
        f"{significant(ratio**power, 5)} times as large."
    )


def source_lines(readings: Sequence[EngineReading], model_type: str) -> list[str]:
    """Return the release of each engine and the files that were read."""
    names = dict.fromkeys(reading.engine for reading in readings)
    lines = []
    for name in names:
        source = SOURCES[name]
        how = "run in the tests" if name == REFERENCE else "read"
        files = ", ".join(source.paths(model_type))
        lines.append(f"{name} ({source.release}), {how}: {files} of {source.url}")
    return lines


def readings_record(readings: Sequence[EngineReading], model_type: str) -> dict[str, Any]:
    """Return readings and differences as plain values for JSON, numbers in full."""
    return {
        "readings": [
            {
                "engine": reading.engine,
                "release": reading.release,
                "sources": list(SOURCES[reading.engine].links(model_type)),
                "layers": reading.kind.name,
                "is_read": reading.is_read,
                "refused": vars(reading.refused) if reading.refused else None,
                "rope_type": reading.rope_type,
                "base": reading.base,
                "inv_freq": None if reading.inv_freq is None else reading.inv_freq.tolist(),
                "attention_factor": reading.attention_factor,
                "softmax_scale": reading.softmax_scale,
                "context": reading.context,
                "rows": reading.rows,
                "factors": reading.factors,
                "chosen_by": reading.chosen_by,
                "served": reading.served,
                "growth": reading.growth,
            }
            for reading in readings
        ],
        "differences": [vars(each) | {"ratio": each.ratio} for each in differences(readings)],
    }
