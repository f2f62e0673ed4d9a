"""The demo: processes that send and die, and what is found in what the stores and outboxes hold afterwards."""
