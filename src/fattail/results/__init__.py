"""What people see of a fit: pages, terminals and tables."""
