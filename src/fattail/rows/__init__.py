"""The only holder of raw rows; `door` converts every source to one canonical form."""
