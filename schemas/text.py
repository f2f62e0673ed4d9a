"""Text of others, made fit to be shown."""


def harmless(text: str) -> str:
    """Return a text without what a terminal would obey: control and formatting characters are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
