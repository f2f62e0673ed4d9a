"""The errors of a client: one root, each with what happened, what to do next, and whether waiting helps."""


class ClientError(Exception):
    """Root of all errors of this package: `hint` names what to do next, `retriable` says whether waiting helps."""

    retriable = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidMessageError(ClientError, ValueError):
    """Refused before anything was written: the message breaks a rule that no resend can mend."""

    exit_code = 2
    """What a command was given, in its arguments or its settings, makes no message."""


class ClientClosedError(ClientError):
    """The client was closed, or belongs to the process that this one was forked from."""


class OutboxError(ClientError):
    """The outbox's file cannot be used as it is."""

    exit_code = 1
    """Where waiting helps too: to be told from a server that did not answer, when all is in the outbox."""


class OutboxBusyError(OutboxError):
    """Other processes kept the outbox locked for longer than the time-out; nothing was written."""

    retriable = True


class OutboxFullError(OutboxError):
    """The disk is full; nothing was written."""

    retriable = True


class UnreachableError(ClientError):
    """Kafka did not answer in time; what was sent stays in the outbox."""

    retriable = True


class DeniedError(ClientError):
    """Kafka refuses this client: authentication, authorization, or a setting it cannot work with."""


class UnknownMessageError(ClientError, LookupError):
    """The outbox holds no message of this id."""

    exit_code = 3


class WaitTimeoutError(ClientError, TimeoutError):
    """The state waited for was not reached in time; the outcome is still open and the outbox goes on trying."""

    retriable = True

    def __init__(self, message: str, hint: str, *, state: str) -> None:
        super().__init__(message, hint)
        self.state = state
        """The last state seen."""


class DeliveryFailedError(ClientError):
    """The message failed for good, or was not delivered in its time."""

    def __init__(self, message: str, hint: str, *, state: str, reason: str) -> None:
        super().__init__(message, hint)
        self.state = state
        self.reason = reason
        """A name of `schemas.lifecycle.Reason`, or what the broker said."""
