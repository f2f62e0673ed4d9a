"""The errors of the contract: one root, each with what happened, what to do next, and whether waiting helps."""


class ContractError(Exception):
    """Root of this package's errors: `hint` names what to do next, `retriable` says whether waiting helps."""

    retriable = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UndecodableError(ContractError):
    """Bytes that are no record of ours, whatever is wrong with them; the text says what."""


class UnencodableError(ContractError):
    """A record that its schema cannot carry: a wrong type, a number out of range, a lone surrogate."""


class PinnedSettingError(ContractError):
    """A passthrough setting that would change one which the contract pins."""

    exit_code = 2


class MigrationError(ContractError):
    """Migrations that do not fit the history of a keyspace, or files that do not form a sequence."""
