"""The contract between clients and workers: records, topics, life-cycle, tables.

Everything here is pure: no sockets, no files beyond the package's own data, no clock. `producers` and `consumers`
meet only in Kafka, through these modules.
"""
