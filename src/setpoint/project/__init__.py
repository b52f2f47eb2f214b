"""The project: its configuration, its pipelines, and the wiring of everything below."""
