"""The command line: one module per verb, loaded only when the verb is used."""
