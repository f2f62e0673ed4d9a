"""Measurements against a floor taken in the same run; `make bench` runs them all."""
