"""Stores: where the fold's rows are kept. One contract (`contract.py`), two stores, one test suite for both."""
