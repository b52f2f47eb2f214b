"""Random histories of runs and misfortunes, played on real tables against a model."""
