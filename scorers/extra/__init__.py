"""Engines that need more than the package brings: models of one's own choice, or a service."""
