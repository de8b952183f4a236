"""Fixtures of the library's tests: every scheme of the registry, in small."""

import re

import pytest

from posenc import SCHEMES, Scheme, SchemeConfig
from tests.library.small_schemes import SMALL_CONFIGS, small_scheme


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `kind` or `variant`, and does not give them, over the registry."""
    given = " ".join(str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize"))
    for name, values in (("kind", SCHEMES), ("variant", SMALL_CONFIGS)):
        if name in metafunc.fixturenames and not re.search(rf"\b{name}\b", given):
            metafunc.parametrize(name, list(values))


@pytest.fixture
def config(variant: str) -> SchemeConfig:
    """Return the config of one scheme in small; a new scheme joins by being in the registry."""
    return SMALL_CONFIGS[variant]


@pytest.fixture
def scheme(variant: str) -> Scheme:
    """Return one scheme in small, built for this test."""
    return small_scheme(variant)
