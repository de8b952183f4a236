"""Named errors: each is one plain sentence that says what, where and what is allowed."""


class PosencError(ValueError):
    """Base of every error this library raises on purpose; a ValueError, so callers may catch that."""


class ConfigError(PosencError):
    """A field of a config or setting is out of its range; the message names field, value and range."""


class SchemeArgumentError(PosencError):
    """An argument of a public function is not usable; the message names it and what is allowed."""


class PositionOutOfRange(PosencError):
    """A position was asked for that the scheme has no value for."""

    def __init__(self, message: str, *, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


class NoPositionVectors(PosencError):
    """The scheme's position kernel is not an inner product of stored or implied vectors."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NoPositionKernel(PosencError):
    """The scheme has no fixed position kernel: what position contributes depends on content."""


class NotStationary(PosencError):
    """The position kernel is not a function of the offset alone, so it has no offset curve."""


class CheckpointError(PosencError):
    """A checkpoint file was refused; the message says why, without its path."""
