"""Results of a fit as objects, pages, tables and files."""
