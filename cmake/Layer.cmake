# How a layer of src/, the Python module and a C++ test are declared.

# Ours are found as "layer/file.h" and never as <layer/file.h>: "torch/x.h" is src/torch/x.h,
# <torch/x.h> is PyTorch's.
set(TORCH_PJRT_INCLUDES "SHELL:-iquote ${CMAKE_CURRENT_SOURCE_DIR}/src")

# torch_pjrt_layer(NAME <layer> [SOURCES <file>...] [LIBS <target>...])
#
# Adds the static library torch_pjrt_<layer>, alias torch_pjrt::<layer>. Without SOURCES it is made
# of every .cc file of the folder. Users of the layer get LIBS too.
function(torch_pjrt_layer)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS")
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS "*.cc")
  endif()
  set(target torch_pjrt_${arg_NAME})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(torch_pjrt::${arg_NAME} ALIAS ${target})
  target_compile_options(${target} PUBLIC "${TORCH_PJRT_INCLUDES}")
  target_link_libraries(${target} PUBLIC ${arg_LIBS})
  torch_pjrt_warnings(${target})
endfunction()

# torch_pjrt_module(NAME <module> [SOURCES <file>...] [LIBS <target>...])
#
# Adds the nanobind extension torch_pjrt.<module>, in the build tree at torch_pjrt/<module>.*.so.
function(torch_pjrt_module)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS")
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS "*.cc")
  endif()
  torch_pjrt_find_nanobind()
  nanobind_add_module(${arg_NAME} NB_STATIC NOMINSIZE ${arg_SOURCES})
  target_compile_options(${arg_NAME} PRIVATE "${TORCH_PJRT_INCLUDES}")
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS})
  # Beside torch in site-packages.
  set_target_properties(${arg_NAME} PROPERTIES INSTALL_RPATH "$ORIGIN/../torch/lib")
  torch_pjrt_warnings(${arg_NAME})
  torch_pjrt_packaged(${arg_NAME})
endfunction()

# Puts a shared module where the Python package looks for it, in the build tree and in a wheel.
function(torch_pjrt_packaged target)
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/torch_pjrt")
  install(TARGETS ${target} LIBRARY DESTINATION torch_pjrt)
endfunction()

# torch_pjrt_test(NAME <name> SOURCES <file>... [LIBS <target>...] [LABELS <label>...]
#                 [FAKE_MODES <mode>...])
#
# Adds a GoogleTest program to the target `tests`, each of its tests a ctest test. A test that needs
# a real plugin finds its path in TORCH_PJRT_TEST_PLUGIN. With FAKE_MODES every test runs in each of
# these modes of the fake plugin (see tests/cpp/pjrt/fake_mode.cc), and has the mode in its name.
function(torch_pjrt_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS;LABELS;FAKE_MODES")
  add_executable(${arg_NAME} ${arg_SOURCES})
  add_dependencies(tests ${arg_NAME})
  target_compile_options(${arg_NAME} PRIVATE "${TORCH_PJRT_INCLUDES}")
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} GTest::gtest_main)
  torch_pjrt_warnings(${arg_NAME})
  set(labels)
  if(arg_LABELS)
    set(labels LABELS "${arg_LABELS}")
  endif()
  if(NOT arg_FAKE_MODES)
    set(arg_FAKE_MODES none)
  endif()
  foreach(mode IN LISTS arg_FAKE_MODES)
    set(prefix)
    set(environment "TORCH_PJRT_TEST_PLUGIN=${TORCH_PJRT_TEST_PLUGIN}")
    if(NOT mode STREQUAL none)
      set(prefix "${mode}.")
      string(APPEND environment "\\;TORCH_PJRT_TEST_FAKE_MODE=${mode}")
    endif()
    gtest_discover_tests(${arg_NAME}
      TEST_PREFIX "${prefix}"
      TEST_LIST ${arg_NAME}_${mode}_tests
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 120
      PROPERTIES
        TIMEOUT 300
        ENVIRONMENT "${environment}"
        ${labels})
  endforeach()
endfunction()
