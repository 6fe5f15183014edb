"""The rules, one a module: plain functions that know neither Spark nor Kafka."""
