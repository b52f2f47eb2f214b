"""A proof for programs, for continuous integration and for people: JSON, JUnit, one HTML page."""
