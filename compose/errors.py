"""What can go wrong when the parts are put together: one root, each with what happened and what to do next."""

from typing import ClassVar


class ComposeError(Exception):
    """Root of this package's errors: `hint` names what to do next, `retriable` says whether waiting helps."""

    retriable = False
    exit_code: ClassVar[int | None] = None
    """What the command ends with where it is neither failed (1) nor unreachable (5)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SettingsError(ComposeError):
    """A setting that does not exist or has a value that it cannot have."""

    exit_code = 2


class NotFoundError(ComposeError):
    """What was asked for is not there."""

    exit_code = 3


class UnreachableError(ComposeError):
    """A server did not answer; the same command may work later."""

    retriable = True
