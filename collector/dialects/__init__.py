"""From the spans of a trace to its turns, whatever library made them."""
