"""The demo: processes that send and die, and a verdict over what the stores and outboxes hold afterwards."""
