"""The benchmark: `python -m torch_pjrt bench`, PyTorch's own conventions on models of our own.

Importing this package imports neither torch nor rich; bench.cli.main does so once its arguments
are known to be good.
"""
