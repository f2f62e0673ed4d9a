"""Claims: work whose effect cannot be repeated, done by one at a time and remembered.

`contract.py` says what a claim is, `claiming.py` is the procedure, `courier.py` runs it under `partition_locks.py`,
`webhook.py` makes the calls.
"""
