// The parts of the module, each bound by a function of its own.
#pragma once

#include <nanobind/nanobind.h>

namespace torch_pjrt::python {

void bind_cache(nanobind::module_& m);
void bind_device(nanobind::module_& m);
void bind_error(nanobind::module_& m);
void bind_frozen(nanobind::module_& m);
void bind_graph(nanobind::module_& m);
void bind_held(nanobind::module_& m);
void bind_memory(nanobind::module_& m);
void bind_program(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);
void bind_warmup(nanobind::module_& m);

// Raises the exception by which a call of this Program ends that was queued.
[[noreturn]] void raise_queued(nanobind::handle program);

}  // namespace torch_pjrt::python
