"""Alerts to people, without Prometheus: webhooks and Alertmanagers."""
