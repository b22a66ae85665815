"""Broken images: each breaks a good one in one way, and the right check must say so."""
