"""Locks for operations across nodes: they end by themselves, and their tokens only rise."""
