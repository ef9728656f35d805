// The module torch_pjrt._C; torch_pjrt/_C.pyi says what is in it.
#include "python/bind.h"

NB_MODULE(_C, m) {
  // Dynamo's caches hold programs until after nanobind's check at exit.
  nanobind::set_leak_warnings(false);
  torch_pjrt::python::bind_cache(m);
  torch_pjrt::python::bind_error(m);
  torch_pjrt::python::bind_device(m);
  torch_pjrt::python::bind_frozen(m);
  torch_pjrt::python::bind_graph(m);
  torch_pjrt::python::bind_held(m);
  torch_pjrt::python::bind_memory(m);
  torch_pjrt::python::bind_program(m);
  torch_pjrt::python::bind_runtime(m);
  torch_pjrt::python::bind_warmup(m);
}
