"""Schemes of users: classes that are registered by hand, by a file or by an installed package."""

import dataclasses
import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
import warnings
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TypeVar

from posenc.errors import ConfigError, PluginError, PosencError, SchemeArgumentError, quoted
from posenc.schemes import SCHEMES
from posenc.schemes.base import SchemeConfig
from posenc.schemes.sizes import Sizes

ENTRY_POINTS = "posenc.schemes"  # the group in which packages name their modules
_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_loaded: list[Path] = []

Config = TypeVar("Config", bound=type[SchemeConfig])


def register(config: Config) -> Config:
    """Add a config class to `SCHEMES` under its kind, and return it, as a decorator does.

    A class of the same module and name is replaced, so that a cell of a notebook can run again. Raises
    SchemeArgumentError for anything but a config class, and ConfigError for one that cannot be used or
    whose kind or label is taken.
    """
    _check(config)
    kind = _kind_of(config)
    present = SCHEMES.get(kind, config)
    if (present.__module__, present.__qualname__) != (config.__module__, config.__qualname__):
        raise ConfigError(
            f"{config.__name__}.kind must be new, got {kind!r}, which is {present.__name__}."
        )
    for other_kind, other in SCHEMES.items():  # links name schemes by either
        if other_kind != kind and config.label in (other_kind, other.label):
            raise ConfigError(
                f"{config.__name__}.label must be new, got {config.label!r}, which {other.__name__} has."
            )
    SCHEMES[kind] = config
    return config


def _kind_of(config: type[SchemeConfig]) -> str:
    return str(config.__dataclass_fields__["kind"].default)


def _check(config: object) -> None:
    """Raise an error that names what a config class lacks."""
    if not isinstance(config, type) or not issubclass(config, SchemeConfig):
        raise SchemeArgumentError(
            f"register takes a class derived from posenc.SchemeConfig, got {quoted(config)}."
        )
    name = config.__name__
    if inspect.isabstract(config):
        raise ConfigError(f"{name} must define {', '.join(sorted(config.__abstractmethods__))}.")
    if "__dataclass_fields__" not in vars(config):
        raise ConfigError(f"{name} must be a dataclass: @dataclass(frozen=True, kw_only=True).")
    if not _KIND.fullmatch(_kind_of(config)):
        raise ConfigError(
            f"{name}.kind must be a field with a default of 1 to 40 lower-case letters, digits and "
            f"underscores that begins with a letter, got {quoted(_kind_of(config))}."
        )
    for text in ("label", "summary"):
        value = inspect.getattr_static(config, text, None)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ConfigError(f"{name}.{text} must be a text of one line, got {quoted(value)}.")
    if "," in config.label:
        raise ConfigError(f"{name}.label must have no comma, got {quoted(config.label)}.")
    given = config.shape(Sizes())
    missing = [
        field.name
        for field in dataclasses.fields(config)
        if field.init and field.name not in given
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{name}.{missing[0]} must have a default, or shape must return it.")
    config(**given)


def load_plugin(file: str | Path) -> None:
    """Run a Python file that registers schemes; one that has been loaded is not run again.

    Raises PluginError where it cannot be read or run, or registers nothing.
    """
    path = Path(file).resolve()
    if path in _loaded:
        return
    # By this name classes are found again in other processes, which load the same file.
    name = f"posenc_plugin_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    loader = SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = dict(SCHEMES)
    sys.modules[name] = module  # where dataclasses look up annotations
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(f"The plugin {file} {_fault(error, str(path))}.") from error
    if before == SCHEMES:
        raise PluginError(
            f"The plugin {file} registers no scheme: it must call posenc.register(MyConfig)."
        )
    _loaded.append(path)


def loaded_plugins() -> tuple[str, ...]:
    """Return the absolute paths of the loaded files, for another process to load."""
    return tuple(map(str, _loaded))


def load_entry_points() -> None:
    """Import the modules that installed packages name in the group `posenc.schemes`.

    Such a module calls `register`. One that cannot be imported is left out with a warning.
    """
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        try:
            importlib.import_module(entry.module)
        except Exception as error:  # noqa: BLE001 - of any class: the code is another package's
            warnings.warn(
                f"The schemes of {entry.name} ({entry.module}) are left out: {_clause(error)}.",
                RuntimeWarning,
                stacklevel=2,
            )


def _fault(error: BaseException, path: str) -> str:
    """Return what is wrong with a file whose run raised an error."""
    if isinstance(error, OSError) and error.filename == path:
        return f"cannot be read: {error.strerror}"
    if isinstance(error, SyntaxError) and error.filename in (path, None):
        return f"is not Python: {error.msg}{f', line {error.lineno}' if error.lineno else ''}"
    lines = [
        f" (line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == path
    ]
    return f"cannot be used{''.join(lines[-1:])}: {_clause(error)}"


def _clause(error: BaseException) -> str:
    """Return an error on one line without its full stop, with its class unless it is ours."""
    kind = "" if isinstance(error, PosencError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}".rstrip(".: ")
