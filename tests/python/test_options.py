"""mode=, options= and the choice of a plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import torch_pjrt
from torch_pjrt import plugins

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.plugin]


@pytest.fixture(autouse=True)
def no_choice_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(plugins.ENVIRONMENT, raising=False)
    plugins._default.cache_clear()


def run(**kwargs: Any) -> None:
    """A call with these arguments of torch.compile that must be right."""
    x = torch.randn(4)
    assert_close(torch.compile(lambda x: x * 3, backend="pjrt", **kwargs)(x), x * 3)


def error_of(**kwargs: Any) -> torch_pjrt.Error:
    with pytest.raises(torch_pjrt.Error) as caught:
        run(**kwargs)
    torch._dynamo.reset()
    run()
    return caught.value


def check(error: torch_pjrt.Error, code: str, *texts: str) -> None:
    assert error.code == code
    for text in texts:
        assert text in str(error)


def test_modes() -> None:
    run(mode="default")
    check(error_of(mode="max-autotune"), "invalid", "max-autotune", "options={...}")


def test_unknown_options() -> None:
    check(error_of(options={"plugn": "cpu"}), "invalid", "'plugn'", "did you mean 'plugin'?")
    check(
        error_of(options={"compile_override": {}}), "invalid", "did you mean 'compile_overrides'?"
    )
    check(error_of(options={"zzz": 1}), "invalid", "'zzz'", "plugin, compile_overrides")
    check(error_of(options={"disk_cache": "no"}), "invalid", "disk_cache", "True or False")
    check(error_of(options={"randm": "eager"}), "invalid", "did you mean 'random'?")


def test_values_of_random() -> None:
    run(options={"random": "default"})
    run(options={"random": None})
    check(error_of(options={"random": "eagre"}), "invalid", "'eagre'", "did you mean 'eager'?")
    check(error_of(options={"random": "zzz"}), "invalid", "default, eager")
    check(error_of(options={"random": 3}), "invalid", "default, eager")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"plugin": 3}, "option plugin"),
        ({"plugin": ""}, "option plugin"),
        ({"compile_overrides": "a=b"}, "option compile_overrides"),
        ({"compile_overrides": {1: True}}, "names of flags"),
        ({"compile_overrides": {"xla_flag": [1]}}, "option compile_overrides['xla_flag']"),
    ],
)
def test_options_of_a_wrong_type(options: dict[str, Any], text: str) -> None:
    check(error_of(options=options), "invalid", text, "remedy: ")


def test_compile_overrides() -> None:
    run(options={"compile_overrides": {"xla_cpu_enable_fast_math": False}})
    for override in ({"xla_no_such_flag": True}, {"xla_cpu_enable_fast_math": "maybe"}):
        error = error_of(options={"compile_overrides": override})
        check(error, "invalid", f"remedy: leave '{next(iter(override))}' out of compile_overrides")


def test_the_cpu_plugin_by_name_and_path() -> None:
    run(options={"plugin": "cpu"})
    run(options={"plugin": plugins.choose("cpu")})
    run(options={"plugin": Path(plugins.choose("cpu"))})


def test_the_fake_plugin() -> None:
    y = torch.compile(lambda x: x * 3, backend="pjrt", options={"plugin": "fake"})(torch.ones(2, 4))
    assert y.shape == (2, 4)
    assert torch_pjrt.stats()["executions"] == 1


def test_a_missing_plugin() -> None:
    check(
        error_of(options={"plugin": "/no/such.so"}), "io", "/no/such.so", "GetPjrtApi", "remedy: "
    )
    check(error_of(options={"plugin": "cpuu"}), "invalid", "'cpuu'", "cpu")
    check(error_of(options={"plugin": "/"}), "io", "not a file")


def test_a_file_that_is_no_plugin(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a shared object")
    assert str(text) in str(error_of(options={"plugin": str(text)}))
    foreign = torch._C.__file__  # a shared object without GetPjrtApi
    assert "GetPjrtApi" in str(error_of(options={"plugin": foreign}))


def test_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(plugins.ENVIRONMENT, "fake")
    assert plugins.choose(None) == plugins.choose("fake")
    assert plugins.choose("cpu") != plugins.choose("fake")  # an option goes first
    plugins._default.cache_clear()
    monkeypatch.setenv(plugins.ENVIRONMENT, "/no/such.so")
    with pytest.raises(torch_pjrt.Error, match=plugins.ENVIRONMENT):
        plugins.choose(None)


def test_the_default_is_the_cpu_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "installed", dict)
    assert plugins.choose(None) == plugins.choose("cpu")


def test_one_installed_plugin_is_chosen_and_several_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "installed", lambda: {"xla_tpu": "/t.so"})
    assert plugins.choose(None) == "/t.so"
    plugins._default.cache_clear()
    monkeypatch.setattr(plugins, "installed", lambda: {"xla_tpu": "/t.so", "xla_gpu": "/g.so"})
    with pytest.raises(torch_pjrt.Error) as caught:
        plugins.choose(None)
    check(caught.value, "invalid", "xla_gpu, xla_tpu", "options={'plugin': 'xla_gpu'}")
    assert plugins.choose("xla_tpu") == "/t.so"


def test_plugin_packages_are_found_and_not_imported(tmp_path: Path) -> None:
    package = tmp_path / "jax_plugins" / "xla_toy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "pjrt_toy.so").write_bytes(b"\x7fELF\0GetPjrtApi\0")
    (package / "pjrt_other.so").write_bytes(b"\x7fELF\0nothing of the kind\0")
    code = "from torch_pjrt import plugins; print(plugins.installed()['xla_toy'])"
    root = str(Path(torch_pjrt.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(package / "pjrt_toy.so"), done.stderr
