"""Settings of every test run: shapes checked at every call, one thread, temporary folders for runs."""

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import jaxtyping
import pytest
import torch
from xdist.remote import Producer
from xdist.scheduler import WorkStealingScheduling

from tests.library import shapes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Every shape annotation of the library is checked at every call, arguments and results. The hook must
# stand before posenc is imported; POSENC_SHAPES=0 leaves it out, as torch.compile needs.
if os.environ.get("POSENC_SHAPES") != "0":
    shapes.check_every_call("posenc")

from posenc.checkpoints.file_store import ENVIRONMENT, WORK_ENVIRONMENT

# Pages are drawn without a server here; Streamlit would say so once for each cached function.
logging.getLogger("streamlit.runtime.caching.cache_data_api").addFilter(
    lambda record: "No runtime found" not in record.getMessage()
)
torch.set_num_threads(int(os.environ.get("POSENC_THREADS", "1")))

# Tests neither read nor change the runs of the user.
_FOLDER = Path(tempfile.mkdtemp(prefix="posenc-tests-"))
os.environ[ENVIRONMENT] = str(_FOLDER / "runs")
os.environ[WORK_ENVIRONMENT] = str(_FOLDER / "work")

hypothesis.settings.register_profile(
    "posenc",
    deadline=None,
    database=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("posenc")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the garbage collector, and keep them from it after that: they stay to the end.

    Looking through them again and again takes a third of the time in which they are collected.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_sessionfinish() -> None:
    """Remove the folders. (At exit would be too late: the processes of xdist end before that.)"""
    shutil.rmtree(_FOLDER, ignore_errors=True)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WorkStealingScheduling:
    """Let a process that has nothing left take tests of others."""
    return WorkStealingScheduling(config, log)


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Switch shape checks off: calls raise the library's own errors, as they do for users."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def own_registry() -> Iterator[None]:
    """Take away what the test registers."""
    from posenc import SCHEMES, plugins

    schemes, loaded = dict(SCHEMES), list(plugins._loaded)
    yield
    SCHEMES.clear()
    SCHEMES.update(schemes)
    plugins._loaded[:] = loaded


# Playwright starts once per process, so these stand here, and import it when a test asks for them.
@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The path of an installed Chromium, for Playwright's executable_path."""
    from tests.browser.browser import find_chromium

    path = find_chromium()
    if path is None:
        pytest.fail("POSENC_REQUIRE_BROWSER is 1, but no Chromium is installed.")
    return path


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> "Iterator[Browser]":
    """The one browser of this process; each test has its own contexts in it."""
    from tests.browser.browser import launched

    with launched(chromium_path) as browser:
        yield browser


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the dashboard that is served once: its log, its runs and its work."""
    return tmp_path_factory.mktemp("dashboard")


@pytest.fixture(scope="session")
def address(served_folder: Path) -> Iterator[str]:
    """The address of the dashboard, served once."""
    from tests.browser.browser import served

    with served(served_folder / "log.txt") as found:
        yield found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests of programs that are not installed; leave out long tests unless asked for."""
    if any(
        item.get_closest_marker("browser") or item.get_closest_marker("proxy") for item in items
    ):
        _skip_without_programs(items)
    if "long" in config.option.markexpr:
        return
    longer = [item for item in items if item.get_closest_marker("long")]
    if longer:
        config.hook.pytest_deselected(items=longer)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def _skip_without_programs(items: list[pytest.Item]) -> None:
    from tests.browser.browser import find_chromium, find_nginx  # imports Playwright

    for marker, found, required, name in (
        ("browser", find_chromium(), "POSENC_REQUIRE_BROWSER", "Chromium"),
        ("proxy", find_nginx(), "POSENC_REQUIRE_PROXY", "nginx"),
    ):
        if found is not None or os.environ.get(required) == "1":
            continue
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=f"no {name} is installed"))
