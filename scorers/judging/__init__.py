"""The parts of the judge: prompts, evidence, the reader, and the road to an endpoint."""
