"""The server: partition owners that fold the log into rows, and everything around them."""
