"""Strata: context assembly for calls to Claude models."""

__version__ = "0.1.0"
