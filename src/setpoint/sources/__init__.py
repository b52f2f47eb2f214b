"""Sources: what a run reads, clipped to its window and pinned to a version."""
