"""One small file per competitor; each says what it is told."""
