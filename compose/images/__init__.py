"""Container images: the worker's, and Kafka's and Cassandra's for places without an image registry; see `build`."""
