"""Eyes on every process of a proof: the kernel asks before one connects or changes a file."""
