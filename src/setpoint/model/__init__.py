"""Pure values: windows, grains, pipelines, write patterns, audits, receipts."""
