"""The stages, one a file, in the order a message meets them: see `openab_kernel.pipeline`."""
