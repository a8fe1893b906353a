"""Loaders: one decorated function per data set; every layout on disk becomes an ``ImageSet``."""
