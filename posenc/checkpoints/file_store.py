"""The store of runs: files by name in a folder or at any fsspec URL, such as a shared bucket.

A file is complete or does not exist. The first file written creates the folder.
"""

import contextlib
import errno
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import fsspec
import platformdirs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol

from posenc import limits
from posenc.errors import RunError, StoreUnavailable

ENVIRONMENT = "POSENC_RUNS"
WORK_ENVIRONMENT = "POSENC_WORK"
# The errors of buckets' clients have no narrower base.
_STORAGE_ERRORS = (Exception,)
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)


class FileStore:
    """The files of one folder or bucket."""

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        """Open the store at `url`, by default `store_url()`."""
        place = os.fspath(url) if url is not None else store_url()
        if not place:
            raise RunError("The store of runs cannot be opened: its name is empty.")
        try:
            self.files, self.root = fsspec.core.url_to_fs(place)
            if self.local:
                _check_folder(Path(self.root))
        except (ValueError, ImportError) as error:  # a protocol that is unknown or needs a package
            raise RunError(f"The store of runs cannot be opened: {error}.") from error
        except _STORAGE_ERRORS as error:
            raise RunError(f"The store of runs cannot be opened: {reason(error)}.") from error
        self.url = self.root if self.local else place  # a folder from wherever it is read

    @property
    def local(self) -> bool:
        """Whether the store is a folder of this machine."""
        return isinstance(self.files, LocalFileSystem)

    def check_writable(self) -> None:
        """Raise RunError where no file can be created in the folder; a bucket is not checked."""
        if not self.local:
            return
        try:
            Path(self.root).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise RunError(f"The store of runs cannot be written: {reason(error)}.") from error

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Return whether a file exists. Raises StoreUnavailable."""
        try:
            with _translated_errors():
                # `info` distinguishes a missing file from an unreadable folder.
                return bool(self.files.info(self.path(name))["type"] != "directory")
        except FileNotFoundError:
            return False

    def names(self) -> list[str]:
        """Return the sorted names of all files. Raises StoreUnavailable."""
        try:
            with _translated_errors():
                self.files.invalidate_cache()  # another machine may have added to the bucket
                entries = self.files.ls(self.root, detail=True)
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(x["name"]).name for x in entries if x["type"] != "directory")

    def content(self, name: str) -> bytes:
        """Return a file's bytes. Raises FileNotFoundError, StoreUnavailable, or RunError if too large."""
        with _translated_errors():
            size = self.files.size(self.path(name)) or 0
            if size <= limits.MAX_RUN_BYTES:
                return bytes(self.files.cat_file(self.path(name)))
        raise RunError(f"The file has {size:,} bytes, more than any file of a run has.")

    def put(self, name: str, content: bytes, *, new: bool = False) -> bool:
        """Write a file and return True. Raises RunError.

        new: replace no file; return False where it exists already.
        """
        try:
            if self.local:
                Path(self.root).mkdir(parents=True, exist_ok=True)
                write_whole(Path(self.path(name)), content, new=new)
            else:  # one upload, visible once complete
                mode = "create" if new else "overwrite"
                self.files.pipe_file(self.path(name), content, mode=mode)
        except _STORAGE_ERRORS as error:
            # It may also be a file in the place of the folder.
            if isinstance(error, FileExistsError) and self.exists(name):
                return False
            raise RunError(f"The store of runs cannot be written: {reason(error)}.") from error
        return True


def is_shared(url: str) -> bool:
    """Return whether other processes see what is written at a URL."""
    return str(get_protocol(url)) != "memory"


def store_url() -> str:
    """Return $POSENC_RUNS, else the default folder of runs."""
    return os.environ.get(ENVIRONMENT) or str(
        platformdirs.user_data_path("posenc", appauthor=False) / "runs"
    )


def work_folder() -> Path:
    """Return the folder of unfinished runs: $POSENC_WORK, else one in the user's cache."""
    folder = os.environ.get(WORK_ENVIRONMENT)
    return Path(folder) if folder else platformdirs.user_cache_path("posenc", appauthor=False)


def write_whole(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write or replace a file in one step. new: raise FileExistsError where it exists."""
    # On a shared folder another machine may have the same process id.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if new:
            _create(temporary, path)
        else:
            temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _create(temporary: Path, path: Path) -> None:
    """Rename a file to a name that must be free, in one step where the folder supports links."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, "a file of this name is there") from None
        temporary.replace(path)


def _sync_folder(folder: Path) -> None:
    # So that a new name survives a loss of power, where the system supports that.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise FileNotFoundError for a missing file, StoreUnavailable for every other error."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(errno.ENOENT, "no such file") from error
    except _STORAGE_ERRORS as error:
        raise StoreUnavailable(f"The store of runs cannot be read: {reason(error)}.") from error


def reason(error: BaseException) -> str:
    """Return why a system call failed, without a path."""
    return getattr(error, "strerror", None) or type(error).__name__


def _check_folder(path: Path) -> None:
    if not next(place for place in (path, *path.parents) if place.exists()).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is in its place")
