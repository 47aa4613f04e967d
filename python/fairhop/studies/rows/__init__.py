"""The rows of the papers as data: what they say, what counts as agreement, and why we differ."""
