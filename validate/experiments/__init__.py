"""Experiments: what must be run to be known. Each runs once per image; checks assert on what it returned.

An experiment is a function that takes the `Bench` and returns an immutable value.
"""
