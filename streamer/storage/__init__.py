"""The Kafka adapter: names of topics, partitions, the bounded consumer, and what a broker says of itself."""
