"""The only holder of raw rows; `door` brings every source into one canonical form."""
