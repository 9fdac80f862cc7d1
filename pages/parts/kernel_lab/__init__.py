"""The sections of the Kernel Lab."""
