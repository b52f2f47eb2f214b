"""Delta Lake: Spark writes the files, one metadata-only commit makes them visible."""
