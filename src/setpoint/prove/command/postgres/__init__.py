"""PostgreSQL tables of a command: kept on disk, restored in one transaction, compared inside."""
