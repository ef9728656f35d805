"""The C++ core as Python sees it (src/python)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

SizeLike: TypeAlias = int | Size
# dtype (e.g. "f32"), dims, strides, offset; in elements
TensorType: TypeAlias = tuple[str, Sequence[SizeLike], Sequence[SizeLike], SizeLike]
ArgValue: TypeAlias = ValueRef | int | bool | float | Size | str | DType | Sequence[ArgValue] | None

class Error(RuntimeError):
    code: str  # one of errors.Code

class OutOfMemoryError(Error, torch.OutOfMemoryError): ...

class Size:
    """A number that depends on symbols: an expression of a Graph, and its value at capture."""
    def __init__(self, expr: int, hint: float) -> None: ...

class ValueRef:
    """A tensor of a Graph: an input or a node's result."""

    id: int
    def __init__(self, id: int) -> None: ...

class DType:
    """A dtype as an argument of a node."""
    def __init__(self, name: str) -> None: ...

class Region:
    """Nodes that are a part of another one, to be filled first."""

    results: list[int]  # values
    def __init__(self) -> None: ...

class Graph:
    def __init__(self) -> None: ...
    def expr_int(self, value: int) -> int: ...
    def expr_float(self, value: float) -> int: ...
    def expr_symbol(self, name: str) -> int: ...
    def expr(self, op: str, args: list[int]) -> int: ...
    def add_tensor_input(
        self,
        name: str,
        dtype: str,
        dims: Sequence[SizeLike],
        strides: Sequence[SizeLike],
        offset: SizeLike,
    ) -> int:
        """Returns the value's id."""
    def add_number_input(self, name: str, size: SizeLike) -> int:
        """Returns the input's index."""
    def add_draw(self) -> int:
        """Adds two random numbers that each call takes, an i64[2]; returns their value's id."""
    def add_node(
        self,
        op: str,
        args: list[tuple[str, bool, ArgValue]],
        results: list[TensorType],
        source: str,
        regions: list[Region] = ...,
        into: Region | None = None,
    ) -> int:
        """Returns the first result's id. An argument is its name, whether its type in the schema
        is Scalar or float (or optional of these), and its value."""
    def add_parameter(self, region: Region, type: TensorType) -> int:
        """A value that the region's node passes to it; returns its id."""
    def add_output_value(self, value: int, type: TensorType) -> None: ...
    def add_output_input(self, input: int) -> None: ...
    def add_output_view(self, input: int, type: TensorType) -> None: ...
    def add_output_part(self, output: int, type: TensorType) -> None:
        """A view of another output's memory."""
    def add_output_same(self, output: int) -> None:
        """The same tensor as an earlier output."""
    def hide_outputs(self, count: int) -> None:
        """The last `count` outputs aren't returned: they are memory that others view."""
    def mark_weights(self, inputs: list[int]) -> None:
        """These inputs are parameters and buffers, which change rarely."""
    def add_output_number(self, value: float | bool | Size) -> None: ...
    def add_output_none(self) -> None: ...
    def add_mutation(self, input: int, value: int) -> None:
        """The memory of input `input` holds the value when the program is complete."""
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(content: bytes) -> Graph:
        """Raises Error: "io" for bytes that aren't a sound graph's, "unsupported" for an op without
        a rule."""
    def symbols(self) -> list[str]: ...
    def evaluate(self, symbols: list[int]) -> list[int | float]:
        """The number outputs, for values of symbols() in their order."""
    def output_kinds(self) -> list[str]:
        """Of each output that is returned: "value", "input", "view", "part", "same", "number" or
        "none"."""

class Program:
    _boxed_call: bool
    graph_break: str
    def __init__(
        self,
        graph: Graph,
        plugin: str,
        overrides: dict[str, bool | int | float | str],
        disk_cache: bool = True,
        freeze: bool = False,
        stored: dict[bytes, bytes] = ...,
        source: str = "",
        guard: str = "",
        on_device: bool = False,
    ) -> None:
        """stored: programs that are looked up before the disk's, as store() gives them. source:
        where the function starts. guard: whose failure made Dynamo capture it."""
    def store(self, inputs: list[Any]) -> tuple[bytes, bytes]:
        """The program for these inputs, compiled and not run: its key, and the program."""

    def __call__(self, inputs: list[Any]) -> list[torch.Tensor | int | float | bool | None]: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

class Frozen:
    def __init__(
        self,
        program: Program,
        inputs: list[tuple[str, Any]],
        leaves: list[tuple[str, str, Any, int, int]],
        checks: Graph,
        symbols: list[tuple[str, int, int]],
        conditions: list[str],
        outputs: list[tuple[str, Any]],
        form: str,
    ) -> None:
        """inputs: of the program, each "leaf" or "float" with its index, "number" with what it is
        read from, or "fixed" with the value. leaves: name, kind ("tensor", "int", "float" or
        "value"), the value, the first leaf that is this one, and the rank, or -1 for one that the
        program doesn't take. checks: numbers, as functions of the symbols, which are read from
        ("leaf", "size", "stride" or "storage_offset", leaf, dim): the conditions, then dims and
        strides of each leaf with a rank. outputs: "result" or "leaf" with its index, or "fixed".
        form: "one", "tuple" or "list"."""

    def __call__(self, *leaves: Any) -> Any: ...

class Contents:
    """What lists and dicts hold, by identity; of other objects the class and the attributes."""

    def __init__(self, containers: list[Any]) -> None: ...
    def same(self) -> bool: ...

class Held:
    """Tensors, of which the first `parameters` are those that gradients are computed of."""

    def __init__(self, tensors: list[torch.Tensor], parameters: int) -> None: ...
    def unchanged(self) -> bool:
        """Whether dtypes, sizes, strides and requires_grad are as at first, and no parameter has
        hooks on its gradient."""

    def contains_any(self, objects: list[Any]) -> bool: ...
    def drop_gradients(self) -> None: ...
    def raise_versions(self) -> None: ...

GRAPH_VERSION: int
"""Of the bytes of a Graph."""

def unsafe_reason(descriptor: int) -> str:
    """Why somebody else could have written an open file, or "": its content would be run."""

def has_rule(op: str) -> bool: ...
def ops() -> list[str]: ...
def is_value(
    op: str, argument: str, is_number_type: bool, number: float | bool | None = None
) -> bool: ...
def lower_text(graph: Graph, symbols: list[int] | None = None) -> str: ...
def refusal(graph: Graph) -> tuple[int, str] | None:
    """The first node that can't be lowered for the sizes at capture, and why; nodes are numbered in
    the order in which they were added."""

def stats() -> dict[str, int]: ...
def reset_stats() -> None: ...
def count_capture() -> None: ...
def count_fallbacks(ops: int) -> None: ...
def count_donated(tensors: int) -> None: ...
def holds_alone(list: list[Any], position: int) -> bool:
    """Whether nothing but the list holds the tensor at that position, or its memory."""

def compiles() -> list[tuple[str, str, list[str]]]:
    """Of each: source and guard of its Program, and the changes since the Program's last key."""

def set_max_program_bytes(bytes: int) -> None: ...
def policy() -> str:
    """Of this thread: "allow", "warn" or "error"."""

def set_policy(name: str) -> None: ...
def exchange_thread_policy(name: str | None) -> str | None:
    """Returns what this thread had; None: no policy of its own."""

class Queued(BaseException):
    """Ends a call of a Program, its argument, whose compile was queued."""

    args: tuple[Program]

class Warmup:
    """Compiles on so many threads. From begin() to end() calls of this thread are queued."""
    def __init__(self, workers: int) -> None: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def cancel(self) -> None:
        """What hasn't started is left."""
    queued: int
    done: int
    def wait(self, ms: int) -> bool:
        """Whether all are done."""
    def check(self) -> None:
        """Raises the first error of a compile."""

def set_log(callable: Callable[[str, str], None] | None, wants_all: bool = True) -> None:
    """`callable` gets the kind ("graph", "stablehlo", "compile", "cache" or "warning") and a text.
    Without `wants_all` it may be spared what is costly to make."""

HOST_ALIGNMENT: int
"""Bytes: a program uses memory in place where its address is a multiple of this."""

def align(tensors: list[torch.Tensor]) -> None: ...
def set_copy_report(callable: Callable[[list[tuple[str, str]]], None]) -> None:
    """`callable` gets the name of each input that had to be copied and the reason: "lazy",
    "not dense", "not aligned", "overlaps" or "device memory"."""

def cache_settings() -> dict[str, Any]:
    """What the environment says: `folder` ("": none), `shared_folder` ("": none), `max_bytes`."""

def read_capture(key: str) -> bytes | None:
    """What write_capture() kept for the key, in this process or another; None: nothing usable."""

def write_capture(key: str, content: bytes) -> None:
    """Keeps it in the folder of programs, if there is one."""

def cache_list(folder: str, with_content: bool) -> list[dict[str, Any]] | None:
    """The entries and unfinished files: `name`, `bytes`, `used_ns` since 1970, `is_finished`;
    `with_content` adds `problem` ("": none) and `key`, part to bytes. None: there is no folder.
    Raises Error (io) for a folder that isn't used."""

def cache_prune(folder: str, max_bytes: int) -> tuple[int, int]:
    """Removes entries until `max_bytes` are left (-1: none); the number and bytes removed."""

def register_device(
    plugin: Callable[[], str],
    trace: Callable[[str, bool, list[Any]], tuple[Graph, list[torch.Tensor], bool] | str],
    warn: Callable[[str, str], None],
    line: Callable[[], str],
) -> bool:
    """Registers device="pjrt"; False where another extension holds torch's place for it. `trace`
    is trace.trace; `warn` gets the name of an op that runs on the CPU, and why. `line` gives the
    user's line that is running, and is called where TORCH_PJRT_DEBUG says "lines"."""

def default_generator() -> torch.Generator: ...
def value_id(tensor: torch.Tensor) -> int:
    """Of a tensor on the lazy device: another number once it was written to."""

def address_of(tensor: torch.Tensor) -> int:
    """Of a tensor on the lazy device: where its storage begins, after all that writes to it has
    run. Raises Error (unsupported) where the plugin's memory isn't the host's."""

def mark_step() -> None: ...
def device_memory() -> tuple[int, int]:
    """Bytes of the arrays on the device: now, and at most since the last reset."""

def reset_peak_device_memory() -> None: ...
def synchronize() -> None: ...
def host_ops() -> dict[str, int]: ...
def reset_host_ops() -> None: ...
def plugin_info(path: str) -> dict[str, Any]: ...
def shutdown() -> None: ...
