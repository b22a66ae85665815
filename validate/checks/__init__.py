"""The checks: pytest modules, one per subject. Each test is one check of the catalogue."""
