"""The stacks that `twotick` can bring up itself: in-process (embedded) and real servers without Docker (local)."""
