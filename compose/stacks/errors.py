"""What can go wrong when a stack is brought up, with what to do about it."""


class StackError(Exception):
    """A stack could not do what was asked.

    `message` says what went wrong, `hint` names the next step, and `retriable` is true if the same call may work later
    with nothing changed by the user.
    """

    def __init__(self, message: str, *, hint: str = "", retriable: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retriable = retriable


class ToolMissingError(StackError):
    """A program that the stack needs (Java, Maven, a Python extra) is not installed or too old."""


class PortTakenError(StackError):
    """A port that a server was to listen on belongs to another process."""


class ServerDiedError(StackError):
    """A server's process ended while it was starting; `log_tail` holds the last lines it wrote."""

    def __init__(self, message: str, *, hint: str, log_tail: str) -> None:
        super().__init__(f"{message}\n{log_tail}" if log_tail else message, hint=hint)
        self.log_tail = log_tail


class NotHealthyError(StackError):
    """A server's process lives, but a real round trip through it failed or took too long."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, retriable=True)
