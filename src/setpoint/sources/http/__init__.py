"""HTTP APIs as an origin: asked on the driver, landed, and read from the landed copy."""
