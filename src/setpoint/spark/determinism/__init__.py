"""The determinism check: what in a frame's analysed plan would make a second run differ."""
