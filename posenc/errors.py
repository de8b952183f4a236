"""Named errors: each is one plain sentence that says what, where and what is allowed."""


def quoted(value: object) -> str:
    """Return the repr of a value in at most 60 characters."""
    if isinstance(value, int) and abs(value) >= 10**40:  # Python refuses to write 5,000 digits
        return "a number of more than 40 digits"
    text = " ".join(line.strip() for line in repr(value).splitlines())
    return text if len(text) <= 60 else text[:57] + "..."


class PosencError(ValueError):
    """Base of every error that this library raises on purpose."""


class ConfigError(PosencError):
    """A field of a config or setting is out of its range; the message names field, value and range."""


class PluginError(PosencError):
    """A file of a user's own schemes cannot be loaded; the message names the file and why."""


class SchemeArgumentError(PosencError):
    """An argument of a public function is not usable; the message names it and what is allowed."""


class PositionOutOfRange(PosencError):
    """A position was asked for that the scheme has no value for. limit: the first such position."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message, limit)  # both, or the error cannot be sent to another process
        self.limit = limit

    def __str__(self) -> str:
        return str(self.args[0])


class NoPositionVectors(PosencError):
    """The scheme's position kernel is not an inner product of stored or implied vectors."""


class NoPositionKernel(PosencError):
    """The scheme has no fixed position kernel: what position contributes depends on content."""


class NotStationary(PosencError):
    """The position kernel is not a function of the offset alone, so it has no offset curve."""


class NothingToShow(PosencError):
    """A result has no picture, or the packages that draw it are not installed."""


class CorpusError(PosencError):
    """A text cannot be trained on; the message says why and what is needed."""


class RunError(PosencError):
    """A training run cannot be started, resumed or read; the message says why."""


class DeviceLost(RunError):
    """An accelerator failed so that the process that used it cannot use it again."""


class QueueFull(PosencError):
    """No more training may wait; the message says how much does."""


class QueueUnwritable(RunError):
    """The folder of the queue cannot be written now, as on a full disk; the queue is unchanged."""


class StoreUnavailable(RunError):
    """The storage of the runs cannot be reached or read now."""


class RunMissing(RunError):
    """There is no run of this name in the store."""


class RunOfAnotherVersion(RunError):
    """A run is intact, but of a version of this library that this one does not know."""


class SchemeNotRegistered(RunOfAnotherVersion):
    """A run is intact, but its scheme is not in the registry. kind: that of the scheme."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return f"The run's scheme, {quoted(self.kind)}, is not registered here."


class CheckpointError(PosencError):
    """A checkpoint file was refused; the message says why, without its path."""


class PickleRefused(CheckpointError):
    """The file is a pickle: code, which is never opened.

    sentence: says so and ends in a colon. conversion: two lines of Python that save the weights as
    .safetensors, to be run where the file's maker is trusted. The message is both.
    """

    def __init__(self, sentence: str, conversion: str) -> None:
        super().__init__(sentence, conversion)
        self.sentence = sentence
        self.conversion = conversion

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.conversion}"


class NoPositionTable(CheckpointError):
    """The file, or the tensor asked for, holds no position table; the message says what it holds."""


class SeveralPositionTables(CheckpointError):
    """The file holds several position tables."""


class ConfigFileError(PosencError):
    """A model's config.json cannot be read; the message names the key, its value and what is allowed.

    key: the key at fault, with its path ("text_config.rope_scaling.factor"), "" for the whole file.
    assume: the model type that `read_config` can assume to read the file all the same, "" where that
    does not help. problem: the message without the words on how to do so.
    """

    def __init__(self, message: str, key: str = "", assume: str = "", problem: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.assume = assume
        self.problem = problem or message
