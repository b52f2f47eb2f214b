"""What is known about libraries, tables and names: the only place that knows them by name."""
