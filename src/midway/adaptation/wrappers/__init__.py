"""Methods around methods, one file each."""

from midway.adaptation.wrappers.wrapper import WRAPPERS, Wrapper, register_wrapper

__all__ = ["WRAPPERS", "Wrapper", "register_wrapper"]
