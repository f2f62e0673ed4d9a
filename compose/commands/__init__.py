"""The commands that belong to no single room: stacks, settings, the demo, one message's whole story."""
