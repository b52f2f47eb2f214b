"""Any existing command as a black box: its tables are kept, watched, compared and restored."""
