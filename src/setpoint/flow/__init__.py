"""The protocol: plan, run, publish, recover. No Spark, no Delta, no database in here."""
