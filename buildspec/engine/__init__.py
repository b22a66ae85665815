"""The container engine: found, started privately or installed, and known to be new enough."""

from buildspec.engine.find import Engine, NoEngineError, find_engine

__all__ = ["Engine", "NoEngineError", "find_engine"]
