"""What the adapters of databases are made of: relations, snapshots, columns on the wire."""
