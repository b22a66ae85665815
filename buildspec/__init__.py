"""Drydock's builders: matrix, locks, plan, engine, build, push, and the command line."""
