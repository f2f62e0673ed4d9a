"""Where the `twotick` command begins.

To load what it is made of takes a third of a second; nothing of that is imported before Ctrl-C can end it in silence.
"""

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Load and run the command line; end the process with one of the exit codes."""
    # A shell's background job ignores Ctrl-C, and goes on doing so.
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        # Not an exception, which an import could swallow or wrap.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from compose.app import run

    if is_heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
