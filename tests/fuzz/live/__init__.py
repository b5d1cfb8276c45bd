"""A fuzzer that publishes events to a real worker, on Apache Kafka and in `streamer up`: see docs/fuzzing.md.

values   values for the fields of an event, by its JSON Schema
events   whole events, valid and nearly valid
stream   records: what is published, where, how, and in which order
beds     real brokers and workers
episode  publishes for a while and looks for harm
"""
