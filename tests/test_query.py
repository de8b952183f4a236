"""A query's text stands for it in every cache: equal where all numbers are, unequal where one is not."""

import dataclasses
import math

from dashboard import compute
from posenc import SCHEMES, Setting, fields
from posenc.query import Query
from tests.conftest import SMALL


def test_the_text_of_a_query_names_everything_that_decides_its_numbers() -> None:
    base = [Query.of(SMALL, kind, "cpu") for kind in SCHEMES]
    variants = list(base)
    for query in base:
        variants += [
            dataclasses.replace(query, **change)
            for change in (
                {"length": query.length + 1}, {"head": 0}, {"precision": "bfloat16"},
                {"seed": 7}, {"device": "cuda"},
            )
        ]  # fmt: skip
        for name, rule in fields.rules(type(query.config)).items():
            value = getattr(query.config, name)
            if isinstance(rule, fields.Real):
                near = (math.nextafter(value, 0.0), math.nextafter(value, math.inf), rule.low)
                nearest = next(n for n in near if n != value and rule.accepts(n))
                changed = dataclasses.replace(query.config, **{name: nearest})
                variants.append(dataclasses.replace(query, config=changed))
    unequal = {repr(query): query for query in variants}
    for query in variants:
        assert unequal[repr(query)] == query
    for one in variants:
        for other in variants:
            assert (repr(one) == repr(other)) == (one == other)


def test_every_cache_of_the_pages_reads_that_text() -> None:
    """Of what has its table: tests/test_page_uploads.py sees to one that has gone."""
    name = compute.CACHE["hash_funcs"]
    assert name.keys() == {Query, Setting}
    for asked in (Setting(), Query.of(Setting(base=77.5), "rope")):
        assert name[type(asked)](asked) == repr(asked)
