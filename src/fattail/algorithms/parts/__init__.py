"""What several papers' algorithms and ``auto`` share: private units, rows, models, loops."""
