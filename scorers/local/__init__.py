"""Engines that judge without a key and without a download. One file each."""
