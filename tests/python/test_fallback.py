"""Graphs with ops that no program can hold: compiled pieces, and eager between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import while_loop
from torch.testing import assert_close

import torch_pjrt

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.plugin,
    pytest.mark.filterwarnings("ignore::torch_pjrt.FallbackWarning"),
]

EAGER_TANH = {"eager_ops": ["aten::tanh"]}


def check(
    function: Callable[..., Any],
    *inputs: Any,
    programs: int | None = None,
    fallbacks: int | None = None,
    tolerance: float = 2e-5,
    **options: Any,
) -> Any:
    """Two compiled calls give what eager gives, strides and shared memory included."""
    want = function(*inputs)
    compiled = torch.compile(function, backend="pjrt", options=options, fullgraph=True)
    compiled(*inputs)
    torch_pjrt.reset_stats()
    got = compiled(*inputs)
    same(got, want, tolerance)
    counts = torch_pjrt.stats()
    assert counts["compiles"] == 0
    if programs is not None:
        assert counts["executions"] == programs
    if fallbacks is not None:
        assert counts["fallbacks"] == fallbacks
    return compiled


def tensors(tree: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def same(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    assert_close(got, want, rtol=tolerance, atol=tolerance)
    for a, b in zip(tensors(got), tensors(want), strict=True):
        assert a.stride() == b.stride()


# --- what is cut, and how often


def test_pieces_around_an_op() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + x
        q, r = torch.linalg.qr(y)
        return (q @ r).cos() * y

    check(f, torch.randn(5, 4), programs=2, fallbacks=1)


def test_an_op_alone_is_no_program() -> None:
    check(lambda x: torch.linalg.qr(x + 1)[1] * 2, torch.randn(4, 4), programs=0, fallbacks=3)


def test_views_are_in_no_piece() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x.t()[1:])[0].t().unsqueeze(0)

    check(f, torch.randn(5, 4), programs=0, fallbacks=1)


def test_a_diamond() -> None:
    """The side without an eager op needs no piece of its own."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x = x.sin() * 2
        left = torch.linalg.qr(x)[1]
        right = (x.cos() + 1).exp()
        return (left @ right) * 2 + right

    check(f, torch.eye(4) + torch.rand(4, 4), programs=2, tolerance=1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.svd(x.sin() * 2)[1].cos() + 1,
        lambda x: torch.linalg.eigh(x @ x.t() + x * 0)[0].sqrt().nan_to_num() * 2,
        lambda x: torch.linalg.eigvals(x * 2 + 1).abs().sort()[0] * 3,
        lambda x: torch.linalg.matrix_exp(x.sin() + 1) * 2 + 1,
        lambda x: torch.linalg.pinv(x.sin() + torch.eye(4)) * 2 + 1,
    ],
    ids=["svd", "eigh", "eigvals", "matrix_exp", "pinv"],
)
def test_linear_algebra(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    check(function, torch.rand(4, 4) + torch.eye(4), tolerance=1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2 + 1).unique() * 2 + 1,
        lambda x: (x * 2 - 1).relu().nonzero() * 2 + 1,
        lambda x: (x * 2 + 1).sum() + x[x > 0.5].sin().sum(),
    ],
    ids=["unique", "nonzero", "mask"],
)
@pytest.mark.parametrize("captured", [False, True], ids=["broken", "captured"])
def test_sizes_that_depend_on_values(function: Callable[..., Any], captured: bool) -> None:
    """Whether Dynamo breaks the graph there, or is told to capture it."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=captured):
        compiled = torch.compile(function, backend="pjrt", fullgraph=captured)
        for seed in range(3):
            x = torch.rand(4, 5, generator=torch.Generator().manual_seed(seed))
            same(compiled(x), function(x))


def test_numbers_from_tensors() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        n = (x > 0).sum().item()
        torch._check(n >= 0)
        return (x.sin() + n).cos() * 2 + torch.ones(n).sum()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(f, backend="pjrt", fullgraph=True)
        for seed in range(3):
            x = torch.randn(6, generator=torch.Generator().manual_seed(seed))
            same(compiled(x), f(x))


# --- sizes, strides, memory


def test_dynamic_sizes_cross_pieces() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        y = torch.tanh(x.sin().reshape(-1) * 2)
        z = y.reshape(x.shape[0] // 2, -1) + n * x.shape[0]
        return torch.tanh(z * 2 + 1).cos() * x.shape[1] + z.shape[0]

    compiled = torch.compile(f, backend="pjrt", dynamic=True, options=EAGER_TANH, fullgraph=True)
    for rows, columns, n in ((4, 3, 2), (6, 5, 7), (8, 3, 9)):
        x = torch.randn(rows, columns)
        same(compiled(x, n), f(x, n))
    assert torch_pjrt.stats()["captures"] == 1


def test_a_fallback_has_eagers_strides() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        u, s, vh = torch.linalg.svd(x * 2 + 1)
        return u, s, vh, u + 1, vh.t() * 2 + u.sum()

    check(f, torch.randn(4, 4), tolerance=1e-3)


def test_outputs_share_memory_as_in_eager() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.sin() * 2
        z = torch.tanh(y.t())
        return y, y.view(-1)[1:], z, z.t(), x.t(), z[0].cos() * 2 + 1

    x = torch.randn(4, 3)
    got = check(f, x, **EAGER_TANH)(x)
    assert got[0].data_ptr() + 4 == got[1].data_ptr()
    assert got[2].data_ptr() == got[3].data_ptr()
    assert got[4].data_ptr() == x.data_ptr()
    got[0].zero_()
    assert got[1].sum() == 0
    assert got[2].any()


def test_equal_values_of_different_tensors_are_different_tensors() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.tanh(x), torch.tanh(x), x.clone(), x.clone()

    x = torch.randn(4)
    got = check(f, x, **EAGER_TANH)(x)
    for tensor in got:
        tensor.zero_()
        assert sum(t.any() for t in (*got, x)) > 0
    assert len({t.data_ptr() for t in (*got, x)}) == 5


def test_nothing_is_copied_between_pieces() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.tanh(x.sin().t() + 1)
        return x.cos() * 2

    compiled = torch.compile(f, backend="pjrt", options=EAGER_TANH)
    compiled(torch.randn(16, 32))
    counts = torch_pjrt.stats()
    assert counts["copied_inputs"] == counts["host_to_device_bytes"] == 0


# --- changes in place


def test_mutated_inputs() -> None:
    def f(x: torch.Tensor, buffer: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        buffer.add_(x.sin() * 2)
        y = torch.tanh(buffer * 2 + x)
        other.copy_(y.cos() * 2)
        buffer.mul_(2)
        return torch.tanh(other + buffer).exp() + 1

    compiled = torch.compile(f, backend="pjrt", options=EAGER_TANH, fullgraph=True)
    x = torch.randn(4, 3)
    ours, eagers = [torch.ones(4, 3), torch.zeros(4, 3)], [torch.ones(4, 3), torch.zeros(4, 3)]
    for _ in range(3):
        same(compiled(x, *ours), f(x, *eagers))
        same(ours, eagers)


def test_the_old_value_is_read_before_it_changes() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        old, view = x.clone(), x.t()
        y = torch.tanh(view * 2 + 1)
        x.mul_(3).add_(1)
        return old, y.cos() + torch.tanh(x.sum() * 0 + old), x[1:], view

    compiled = torch.compile(f, backend="pjrt", options=EAGER_TANH, fullgraph=True)
    x, y = torch.ones(3, 3), torch.ones(3, 3)
    for _ in range(2):
        same(compiled(x), f(y))
        same(x, y)


def test_an_error_leaves_inputs_as_they_were() -> None:
    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y = torch.tanh(x * 2 + 1)
        return y[index].cos() * 2

    compiled = torch.compile(f, backend="pjrt", options=EAGER_TANH, fullgraph=True)
    x = torch.ones(3)
    compiled(x, torch.tensor([1]))
    assert x.tolist() == [2.0] * 3
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([3]))
    assert x.tolist() == [2.0] * 3


def test_an_error_in_an_eager_op_is_eagers() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x * 2).sin() * 2

    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    same(compiled(torch.eye(3)), f(torch.eye(3)))
    with pytest.raises(torch.linalg.LinAlgError, match="failed to converge"):
        compiled(torch.full((3, 3), float("nan")))
    same(compiled(torch.eye(3)), f(torch.eye(3)))


# --- random numbers, autocast, inference mode


def test_random_numbers_keep_their_order() -> None:
    """The op in eager gets eager's own; the others are fresh and follow the seed."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.rand(3) + x
        b = torch.poisson(a * 0 + 50)
        return a, b, torch.rand(3) + b

    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    x = torch.ones(3)
    torch.manual_seed(3)
    first = compiled(x)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    again = compiled(x)
    same(first, again)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(compiled(x)[0], first[0])


def test_eagers_random_numbers() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.rand(3) + x
        b = torch.bernoulli(a * 0.25)
        return a, b, torch.rand(3) + b

    compiled = torch.compile(f, backend="pjrt", options={"random": "eager"}, fullgraph=True)
    x = torch.ones(3)
    for seed in range(3):
        torch.manual_seed(seed)
        got = compiled(x)
        torch.manual_seed(seed)
        same(got, f(x))


def test_autocast() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x @ x + 1)
        with torch.autocast("cpu", enabled=False):
            return torch.linalg.qr(y.float() @ x + 1)[1].sin() @ x + 1

    x = torch.randn(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        check(f, x, tolerance=2e-2, **EAGER_TANH)


def test_inference_mode() -> None:
    with torch.inference_mode():
        x = torch.randn(4, 4)
        compiled = check(lambda x: torch.tanh(x.sin() * 2).cos() + 1, x, **EAGER_TANH)
        assert compiled(x).is_inference()


# --- other things that no program can hold


@torch.library.custom_op("torch_pjrt_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


twice.register_autograd(lambda ctx, grad: grad * 2)


@torch.library.custom_op("torch_pjrt_tests::raise_", mutates_args=("x",))
def raise_(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("torch_pjrt_tests::sum_and_clear", mutates_args=("x",))
def sum_and_clear(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    x.zero_()
    return total


@sum_and_clear.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(())


@torch.library.custom_op("torch_pjrt_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


def test_custom_ops() -> None:
    check(lambda x: twice(x.sin() + 1).cos() + 1, torch.randn(5), programs=2, fallbacks=1)


def test_a_custom_op_in_training() -> None:
    x = torch.randn(5)
    grads = []
    for function in (lambda f: f, lambda f: torch.compile(f, backend="pjrt", fullgraph=True)):
        leaf = x.clone().requires_grad_()
        function(lambda x: twice(x.sin() + 1).cos() * 2)(leaf).sum().backward()
        grads.append(leaf.grad)
    assert_close(*grads)


def test_custom_ops_that_write() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        raise_(x, 2.0)
        z = x.sin() * 2
        raise_(z, 3.0)
        total = sum_and_clear(y)
        raise_(y[0], 1.5)
        return z.cos() + total, y + 1, z

    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    ours, eagers = [torch.ones(2, 3), torch.ones(2, 3)], [torch.ones(2, 3), torch.ones(2, 3)]
    for _ in range(3):
        same(compiled(*ours), f(*eagers))
        same(ours, eagers)


def test_a_custom_op_with_a_size_of_its_own() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = positive(x.sin() + 0.1)
        return (y * 2 + 1).cos() + y.shape[0]

    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    for seed in range(3):
        x = torch.randn(8, generator=torch.Generator().manual_seed(seed))
        same(compiled(x), f(x))


def test_an_op_that_has_an_effect() -> None:
    seen: list[float] = []

    @torch.library.custom_op("torch_pjrt_tests::see", mutates_args=())
    def see(x: torch.Tensor) -> None:
        seen.append(float(x))

    @see.register_fake
    def _(x: torch.Tensor) -> None:
        return None

    def f(x: torch.Tensor) -> torch.Tensor:
        see(x.sum())
        y = x.sin() * 2
        see(y.sum() * 0 + 7)
        return y + 1

    from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

    _register_effectful_op(torch.ops.torch_pjrt_tests.see.default, _EffectType.ORDERED)
    x = torch.ones(3)
    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    for _ in range(2):
        seen.clear()
        same(compiled(x), f(x))
        assert seen[:2] == seen[2:] == [3.0, 7.0]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.float8_e5m2])
def test_dtypes_that_no_program_holds(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = x.to(torch.float32)
        return wide.sin() * 2 + y, (y * 2 + 1).to(dtype), x

    x, y = torch.arange(4).to(dtype), torch.arange(4.0)
    got, want = torch.compile(f, backend="pjrt", fullgraph=True)(x, y), f(x, y)
    same(got[0], want[0])
    assert torch.equal(got[1].float(), want[1].float())
    assert [t.dtype for t in got] == [t.dtype for t in want]
    assert got[2] is x
    assert torch_pjrt.stats()["executions"] == 1


def test_what_a_rule_refuses() -> None:
    """Found when it is tried, at capture."""

    def summed(z: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.logcumsumexp(z * 2 + 1, 0) * 2 + 1)

    z = torch.randn(3, dtype=torch.complex64)
    check(summed, z, programs=2, fallbacks=1)
    check(lambda z: torch.view_as_real((z * 2 + 1).sin()).cumsum(0) * 2 + 1, z)


def test_control_flow() -> None:
    """Its regions are compiled."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() * 2
        y = torch.cond(
            x.sum() > 0,
            lambda y: torch.linalg.qr(y.cos() + 1)[1].contiguous() * 2,
            lambda y: y * 3 + 1,
            (y,),
        )
        return y.exp() + 1

    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    for x in (torch.ones(3, 3), -torch.ones(3, 3)):
        same(compiled(x), f(x), 1e-4)


def test_a_loop_whose_condition_is_computed() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(
            lambda i, x: (i < 5) & (x.sum() < 1e6),
            lambda i, x: (i + 1, x.sin() * 2 + 1),
            (start, x),
        )

    compiled = torch.compile(f, backend="pjrt", fullgraph=True)
    for x in (torch.ones(3), torch.zeros(3)):
        same(compiled(x), f(x))


# --- options, warnings, errors


def model(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    y = torch.linalg.qr(y)[1]  # the first line
    return torch.linalg.qr(y + y.cos())[1] * 2  # the second line


def test_one_warning_names_the_ops_and_lines() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = torch.compile(model, backend="pjrt")
        for _ in range(2):
            compiled(torch.randn(3, 3))
    (warning,) = [w for w in caught if w.category is torch_pjrt.FallbackWarning]
    text = str(warning.message)
    first = model.__code__.co_firstlineno + 2
    assert f"aten::linalg_qr at {__file__}:{first} in model: y = torch.linalg.qr(y)[1]" in text
    assert f"{__file__}:{first + 1} in model" in text
    assert warning.filename == __file__
    assert "remedy: " in text


def test_error_mode() -> None:
    compiled = torch.compile(model, backend="pjrt", options={"fallback": "error"})
    with pytest.raises(torch_pjrt.Error) as caught:
        compiled(torch.randn(3, 3))
    assert caught.value.code == "unsupported"
    for text in ("aten::linalg_qr", "the first line", "remedy: "):
        assert text in str(caught.value)


def test_eager_mode() -> None:
    x = torch.randn(3, 3)
    compiled = torch.compile(model, backend="pjrt", options={"fallback": "eager"})
    with pytest.warns(torch_pjrt.FallbackWarning, match="linalg_qr"):
        assert torch.equal(compiled(x), model(x))
    assert torch_pjrt.stats()["executions"] == 0
    assert torch_pjrt.stats()["fallbacks"] > 0
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    compiled(leaves[0]).sum().backward()
    model(leaves[1]).sum().backward()
    assert torch.equal(leaves[0].grad, leaves[1].grad)  # type: ignore[arg-type]


def test_eager_mode_looks_at_the_backward_before_the_forward_runs() -> None:
    x = torch.randn(3, 3, requires_grad=True)
    compiled = torch.compile(
        lambda x: NoRuleBackward.apply(x * 2), backend="pjrt", options={"fallback": "eager"}
    )
    compiled(x).sum().backward()
    assert torch_pjrt.stats()["executions"] == 0


class NoRuleBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(grad)[1]


def test_eager_mode_compiles_what_it_can() -> None:
    compiled = torch.compile(lambda x: x.sin() + 1, backend="pjrt", options={"fallback": "eager"})
    x = torch.randn(3, requires_grad=True)
    compiled(x).sum().backward()
    assert torch_pjrt.stats()["executions"] == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fallback": "partial"}, "did you mean 'partition'?"),
        ({"fallback": True}, "one of partition, error, eager"),
        ({"eager_ops": "aten::tanh"}, "a list of names"),
        ({"eager_ops": ["tanh"]}, "a list of names"),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(torch_pjrt.Error) as caught:
        torch.compile(lambda x: x + 1, backend="pjrt", options=options)(torch.ones(2))
    assert caught.value.code == "invalid"
    assert text in str(caught.value)
