"""How long to leave alone what has failed: waits that grow, bounded, spread by chance. Pure."""

from typing import Final

_DOUBLINGS_MAX: Final = 30
"""What fails for months would overflow a float."""


def backoff_s(first_s: float, s_max: float, failures: int, chance: float = 1.0) -> float:
    """Return the s to wait after a failure that `failures` others came before: 1, 2, 4, 8 for a `first_s` of 1.

    Never more than `s_max`. `chance` is between 0 and 1; what it lacks to 1 takes off up to a half, so that those that
    failed together do not come back together.
    """
    longest_s: float = min(s_max, first_s * 2.0 ** min(failures, _DOUBLINGS_MAX))
    return longest_s * (0.5 + chance / 2)
