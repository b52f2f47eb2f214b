"""Spark sessions, and what they need from the machine: a Java runtime and connector jars."""
