"""The logger "torch_pjrt": one line per capture and compile at INFO, whole programs at DEBUG.

TORCH_LOGS="torch_pjrt" shows the lines, TORCH_LOGS="+torch_pjrt" the programs too.
"""

from __future__ import annotations

import logging

import torch

from . import _C  # isort: skip

logger = logging.getLogger("torch_pjrt")


def _write(kind: str, text: str) -> None:
    """Called by the core: `kind` is that of a line, or else the name of a dump."""
    if kind == "warning":
        logger.warning("%s", text)
    elif kind in ("compile", "cache"):
        logger.info("%s: %s", kind, text)
    else:
        logger.debug("%s:\n%s", kind, text)


def connect() -> None:
    """Lets the core warn, and log if somebody listens: else that costs nothing. Called at every
    capture."""
    listening = logger.isEnabledFor(logging.INFO)
    # TORCH_LOGS sets the level of other packages' loggers only.
    if listening and not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
    _C.set_log(_write, listening)


def captured(gm: torch.fx.GraphModule) -> None:
    """Logs one capture."""
    if logger.isEnabledFor(logging.INFO):
        ops = len([node for node in gm.graph.nodes if node.op == "call_function"])
        inputs = len(gm.graph.find_nodes(op="placeholder"))
        logger.info("capture: %d ops, %d inputs", ops, inputs)
