"""The stream between the stages: one contract, an embedded and a Kafka implementation."""
