"""The measuring: units, records, tables, plots, pages, checks and the command line."""
