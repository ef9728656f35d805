# What comes from Python packages, found without importing them: the PJRT header, libtorch, nanobind.

set(python_components Interpreter)
if(NOT TORCH_PJRT_CORE_ONLY)
  list(APPEND python_components Development.Module)
endif()
if(NOT (TORCH_PJRT_CORE_ONLY AND TORCH_PJRT_PJRT_INCLUDE_DIR))
  find_package(Python 3.11 COMPONENTS ${python_components} REQUIRED)
endif()

# Sets `result` to the folder of an importable package, or fails and names the remedy.
function(torch_pjrt_package_dir name requirement result)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "from importlib.util import find_spec; s = find_spec('${name}'); print(next(iter(s.submodule_search_locations)) if s else '', end='')"
    OUTPUT_VARIABLE dir
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR dir STREQUAL "")
    message(FATAL_ERROR "Package ${name} is not installed for ${Python_EXECUTABLE}. "
      "Install it with: ${Python_EXECUTABLE} -m pip install ${requirement}")
  endif()
  file(TO_CMAKE_PATH "${dir}" dir)
  set(${result} "${dir}" PARENT_SCOPE)
endfunction()

# The PJRT C API: one header, and the XLA CPU plugin that the tests run against.
add_library(pjrt_c_api INTERFACE)
if(NOT TORCH_PJRT_PJRT_INCLUDE_DIR)
  torch_pjrt_package_dir(xla_plugins xla-cpu-pjrt==0.0.1 plugins)
  set(TORCH_PJRT_PJRT_INCLUDE_DIR "${plugins}/xla_cpu_pjrt/include")
  set(TORCH_PJRT_TEST_PLUGIN "${plugins}/xla_cpu_pjrt/xla_cpu_pjrt.so")
endif()
if(NOT EXISTS "${TORCH_PJRT_PJRT_INCLUDE_DIR}/pjrt_c_api.h")
  message(FATAL_ERROR "No pjrt_c_api.h in ${TORCH_PJRT_PJRT_INCLUDE_DIR}. Install the header with: "
    "${Python_EXECUTABLE} -m pip install xla-cpu-pjrt==0.0.1, "
    "or set TORCH_PJRT_PJRT_INCLUDE_DIR to a folder that has it")
endif()
target_include_directories(pjrt_c_api SYSTEM INTERFACE "${TORCH_PJRT_PJRT_INCLUDE_DIR}")

if(NOT TORCH_PJRT_CORE_ONLY)
  # torch_pjrt::libtorch is PyTorch's C++ library; torch_pjrt::torch_python adds its Python side.
  torch_pjrt_package_dir(torch torch==2.13.0 torch_dir)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "from importlib.metadata import version; print(version('torch'), end='')"
    OUTPUT_VARIABLE torch_version
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT torch_version MATCHES "^2\\.13\\.")
    message(FATAL_ERROR "torch ${torch_version} in ${torch_dir} is not supported: "
      "this release is built against 2.13. "
      "Install it with: ${Python_EXECUTABLE} -m pip install torch==2.13.0")
  endif()
  message(STATUS "torch ${torch_version}: ${torch_dir}")
  foreach(library c10 torch_cpu torch_python)
    add_library(torch_pjrt_import_${library} SHARED IMPORTED GLOBAL)
    set_target_properties(torch_pjrt_import_${library} PROPERTIES
      IMPORTED_LOCATION "${torch_dir}/lib/lib${library}.so")
  endforeach()
  add_library(torch_pjrt_libtorch INTERFACE)
  add_library(torch_pjrt::libtorch ALIAS torch_pjrt_libtorch)
  target_include_directories(torch_pjrt_libtorch SYSTEM INTERFACE
    "${torch_dir}/include" "${torch_dir}/include/torch/csrc/api/include")
  target_link_libraries(torch_pjrt_libtorch INTERFACE
    torch_pjrt_import_torch_cpu torch_pjrt_import_c10)
  add_library(torch_pjrt_torch_python INTERFACE)
  add_library(torch_pjrt::torch_python ALIAS torch_pjrt_torch_python)
  target_link_libraries(torch_pjrt_torch_python INTERFACE
    torch_pjrt_import_torch_python torch_pjrt_libtorch Python::Module)
endif()

# Finds nanobind, whose functions then exist in the caller's scope.
macro(torch_pjrt_find_nanobind)
  if(NOT COMMAND nanobind_add_module)
    torch_pjrt_package_dir(nanobind nanobind nanobind_dir)
    find_package(nanobind CONFIG REQUIRED PATHS "${nanobind_dir}/cmake" NO_DEFAULT_PATH)
  endif()
endmacro()
