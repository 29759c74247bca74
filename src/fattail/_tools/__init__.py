"""What every layer uses: escaping of names, threads, warnings."""
