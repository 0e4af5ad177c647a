"""Boards for Grafana and rules for Prometheus, as code and as the files that they give."""
