"""The boards as code. Building them needs the development dependencies; the JSON files do not."""
