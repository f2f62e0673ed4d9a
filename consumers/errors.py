"""The errors of a worker: one root, each with what happened, what to do next, and whether waiting helps."""


class WorkerError(Exception):
    """Root of all errors of this package: `hint` names what to do next, `retriable` says whether waiting helps."""

    retriable = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class StoreUnavailableError(WorkerError):
    """The store did not answer, or its outcome is unknown; the same call is safe to make again."""

    retriable = True


class StoreRefusedError(WorkerError):
    """The store answered no, and will again: a missing table, a missing permission, another schema version."""
