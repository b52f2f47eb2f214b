"""The code audit: finds what makes a pipeline give other rows when it runs again.

The phases, each a module or a package, in the order in which a file passes them:

    document     bytes to cells of Python and SQL that know their lines
    parsing      Python to a syntax tree, also when a part of it is broken
    interpret    the tree to traces: what is read, written, committed and sent, with dataflow
    sql          SQL texts to statements
    rules        traces to findings, one rule per file
    run          many files: settings, suppressions, cache
    report       findings to text, JSON, SARIF and GitHub annotations

Nothing of it imports pyspark, runs the code it reads, or asks the network.
"""
