"""Checks that AOTAutograd keeps in order by tokens, as plain ops: a program reports the first error
in the order of the code, and so needs no tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

_CHECK = torch.ops.aten._linalg_check_errors.default


def take_out(gm: GraphModule) -> None:
    """Replaces with_effects(token, check, ...), which gives a token and None, by check(...)."""
    graph = gm.graph
    found = graph.find_nodes(op="call_function", target=torch.ops.higher_order.with_effects)
    for node in found:
        token, op, *args = node.args
        if op is not _CHECK:
            continue
        with graph.inserting_before(node):
            check = graph.call_function(op, tuple(args), dict(node.kwargs))
        check.meta = {**node.meta, "val": None}
        for part in list(node.users):
            if part.args[1] == 0:
                part.replace_all_uses_with(token)
            graph.erase_node(part)
        graph.erase_node(node)
    if found:
        _remove_unused_tokens(gm)


def _remove_unused_tokens(gm: GraphModule) -> None:
    """Those that are made and collected, with nothing between."""
    prims = torch.ops.prims
    for sink in gm.graph.find_nodes(op="call_function", target=prims._sink_tokens.default):
        tokens: Any = sink.args[0]
        if all(_is_new(token) for token in tokens):
            gm.graph.erase_node(sink)
    for token in gm.graph.find_nodes(op="call_function", target=prims._make_token.default):
        if not token.users:
            gm.graph.erase_node(token)


def _is_new(token: Node) -> bool:
    return token.target is torch.ops.prims._make_token.default and len(token.users) == 1
