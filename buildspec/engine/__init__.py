"""The container engine: found, started privately or installed, and known to be new enough."""

from buildspec.engine.find import Engine, find_engine

__all__ = ["Engine", "find_engine"]
