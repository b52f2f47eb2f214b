"""Targets: one folder per destination, each with its own best mechanism."""
