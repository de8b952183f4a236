"""Settings of the test run: shapes checked at every call, one thread, every scheme in small."""

import functools
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jaxtyping
import pytest
import torch

from tests import exempt, shapes
from tests.browser import find_chromium, find_nginx
from tests.stand_ins import STAND_INS

# Every shape annotation of the library is checked at every call, arguments and results. The hook must
# stand before posenc is imported; POSENC_SHAPES=0 leaves it out, as torch.compile needs.
if os.environ.get("POSENC_SHAPES") != "0":
    shapes.check_every_call("posenc")

from dashboard import kept
from posenc import SCHEMES, ConfigError, Scheme, SchemeConfig, Setting, fields
from posenc.run_files import ENVIRONMENT, WORK_ENVIRONMENT

pytest_plugins = ("tests.browser_fixtures",)

torch.set_num_threads(1)

# Neither the runs of whoever tests nor what is being trained there: a place of the tests' own.
_PLACE = Path(tempfile.mkdtemp(prefix="posenc-tests-"))
os.environ[ENVIRONMENT] = str(_PLACE / "runs")
os.environ[WORK_ENVIRONMENT] = str(_PLACE / "work")

hypothesis.settings.register_profile(
    "posenc",
    deadline=None,
    database=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("posenc")

# Small, with a head count that is no power of two, and enough learned rows for every law.
SMALL = Setting(dim=80, heads=10, length=16, train_length=300, learned_source="random")


def small_configs() -> dict[str, SchemeConfig]:
    """Return every scheme of the registry in small, and once more per alternative of its own fields.

    Of a scheme made from another one only what is its own and decides how something is computed: its
    factors are numbers like any other (tests/scaling_strategies.py varies them all).
    """
    found = {}
    for kind, config in SCHEMES.items():
        found[kind] = SMALL.config(kind)
        parents = [other for other in SCHEMES.values() if other in config.__mro__[1:]]
        inherited = [rule for other in parents for rule in fields.rules(other).values()]
        for name, rule in found[kind].own_rules().items():
            known = any(rule is one for one in inherited)
            known = known or (bool(parents) and isinstance(rule, fields.Real))
            for value in () if known else alternatives(rule):
                if value == getattr(found[kind], name):
                    continue
                try:
                    found[f"{kind}.{name}={value}"] = found[kind].replace(**{name: value})
                except ConfigError:
                    continue
    return found


def alternatives(rule: fields.Rule) -> tuple[object, ...]:
    """Return a few other values of a rule: all words of a choice, the middle of a range.

    Of a range of factors that is its geometric mean; of one with stops, the first two of them.
    """
    match rule:
        case fields.Choice(options=options):
            return options
        case fields.Flag():
            return (False, True)
        case fields.Real(low=low, high=high):
            return ((low + high) / 2,) if low < 1 else (math.sqrt(low * high),)
        case fields.Whole(grid=(first, second, *_)):
            return (first, second)
        case fields.Whole():
            return (rule.clamp((rule.low + rule.high) / 2),)
        case fields.Numbers(whole=True):  # four pairs shared out among two axes, or three
            return ((1, 3), (0, 1, 3))
        case fields.Numbers():  # one for each of four pairs
            return ((1.0, 1.5, 2.5, 4.0),)
    return ()


SMALL_CONFIGS = small_configs()


def small_scheme(variant: str, **others: Any) -> Scheme:
    """One scheme in small, its parameters (if any) moved off their start so that none is trivial.

    others: values of its fields to change, of those that it has.
    """
    config = SMALL_CONFIGS[variant]
    own = {name: value for name, value in others.items() if hasattr(config, name)}
    built = config.replace(**own).build(seed=3)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return built


_looked_at = functools.cache(small_scheme)  # to choose by, when tests are collected


def pytest_sessionfinish() -> None:
    """Leave nothing behind. (At exit would be too late: the processes of xdist end before that.)"""
    shutil.rmtree(_PLACE, ignore_errors=True)


def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: browsers, servers and other processes are often waited for."""
    return (os.cpu_count() or 1) + 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `kind` or `variant`, and does not give them, over the registry.

    `over_code` leaves out the variants that another one stands in for (tests/stand_ins.py), `only`
    those for whose scheme its function is false.
    """
    given: set[str] = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0]
        given |= {name.strip() for name in (names.split(",") if isinstance(names, str) else names)}
    for name, values in (("kind", SCHEMES), ("variant", SMALL_CONFIGS)):
        if name not in metafunc.fixturenames or name in given:
            continue
        chosen = list(values)
        if metafunc.definition.get_closest_marker("over_code"):
            chosen = [one for one in chosen if one not in STAND_INS]
        for mark in metafunc.definition.iter_markers("only"):
            chosen = [one for one in chosen if mark.kwargs["where"](_looked_at(one))]
        assert chosen, f"{metafunc.definition.nodeid} would be run for no scheme"
        metafunc.parametrize(name, chosen)


_MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """Streamlit makes the page that a test visits the main module, which every process that a later
    test spawns would then run anew.
    """
    yield
    sys.modules["__main__"] = _MAIN


@pytest.fixture
def config(variant: str) -> SchemeConfig:
    """The config of one scheme in small; a new scheme joins by being in the registry."""
    return SMALL_CONFIGS[variant]


@pytest.fixture
def scheme(variant: str) -> Scheme:
    """One scheme in small, made anew for the test."""
    return small_scheme(variant)


@pytest.fixture
def draw() -> torch.Generator:
    """A generator with a fixed seed: no test depends on which test ran before it."""
    return torch.Generator().manual_seed(0)


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Calls as users make them: the library's own errors, not those of the test run's checks."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out browser tests where there is no browser, and longer proofs nobody asked for."""
    no_browser = find_chromium() is None and os.environ.get("POSENC_REQUIRE_BROWSER") != "1"
    no_proxy = find_nginx() is None and os.environ.get("POSENC_REQUIRE_PROXY") != "1"
    for item in items:
        exempt.mark(item)
        if no_browser and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="no Chromium is installed"))
        if no_proxy and item.get_closest_marker("proxy"):
            item.add_marker(pytest.mark.skip(reason="no nginx is installed"))
    if "long" in config.option.markexpr:
        return
    longer = [item for item in items if item.get_closest_marker("long")]
    if longer:
        config.hook.pytest_deselected(items=longer)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    """Let every test read its pages anew: it may have changed what they are read from."""
    kept.readings.clear()
