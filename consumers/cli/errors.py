"""Errors of the server's commands."""

from consumers.errors import WorkerError


class NotFoundError(WorkerError):
    """What was asked for is not there."""

    exit_code = 3
