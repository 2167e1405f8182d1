"""Numbers as tables, plots and pages."""
