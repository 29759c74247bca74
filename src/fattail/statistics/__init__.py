"""Statistics in one call."""
