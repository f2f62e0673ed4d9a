"""Replay: the log folded again, beside the workers, to rebuild rows, to compare them, or to be read by people."""
