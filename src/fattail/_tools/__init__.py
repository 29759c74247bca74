"""Tools for every layer: escaping of names, threads, warnings."""
