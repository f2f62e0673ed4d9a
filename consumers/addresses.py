"""Addresses that a worker posts to: what can be none is refused before anything is started."""

from typing import Final
from urllib.parse import urlsplit

PORT_MAX: Final = 65_535


def check_url(name: str, url: str) -> None:
    """Raise ValueError for what cannot be posted to; it does not repeat the address, which may be a secret."""
    parts = urlsplit(url)
    _ = parts.port  # raises ValueError for one that is no port
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{name} must be http://... or https://...")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError(f"{name} must be ASCII without spaces: encode what is not as %..")
    if parts.username is not None:
        # The HTTP clients would leave it out without a word.
        raise ValueError(f"{name} must not hold a user's name or password")
