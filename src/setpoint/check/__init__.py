"""Looking at existing tables: duplicates, grain mismatch, gaps. Nothing is written."""
