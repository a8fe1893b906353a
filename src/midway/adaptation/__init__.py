"""What the methods share: the base class, state, statistics, parameters and wrappers."""
