"""How the rooms are put together and run: settings, wiring, stacks, the `twotick` command and the demo."""
