"""Every config that a test of this folder reads is also read by the rows of posenc.families.

This goes when they take the place of today's readers.
"""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from posenc.models import read_config
from tests.models.both_readers import compare

# The module, whose name the package gives to the function.
_MODULE = sys.modules[read_config.__module__]
_DIFFERENCES: list[str] = []


@pytest.fixture(autouse=True, scope="session")
def _both_readers_agree() -> Iterator[None]:
    inside = False
    read_keys: Any = vars(_MODULE)["read_keys"]

    def read_twice(record: Any, assume: Any = None) -> Any:
        nonlocal inside
        if inside:
            return read_keys(record, assume)
        inside = True
        try:
            outcome = compare(record, assume)
        finally:
            inside = False
        if outcome.word == "differs":
            _DIFFERENCES.append(f"{record.get('model_type')}: {outcome.why}")
        return read_keys(record, assume)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_MODULE, "read_keys", read_twice)
        yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Fail the test that reads a config which the two readers take for different models."""
    found = _DIFFERENCES.copy()
    _DIFFERENCES.clear()
    assert not found, "\n".join(found[:5])
