"""Hive-style Parquet tables in a metastore as targets: a publish moves locations."""
