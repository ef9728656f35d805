# Compiler settings for every target: standard, visibility, sanitizers, compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TORCH_PJRT_CCACHE ccache)
  if(TORCH_PJRT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${TORCH_PJRT_CCACHE}")
  endif()
endif()

if(TORCH_PJRT_SANITIZE)
  add_compile_options(-fsanitize=${TORCH_PJRT_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TORCH_PJRT_SANITIZE})
endif()

# Applies the project's warnings to one of its own targets.
function(torch_pjrt_warnings target)
  if(TORCH_PJRT_WARNINGS)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # GCC 12 finds overlap in string concatenation where there is none (its bug 105651).
      target_compile_options(${target} PRIVATE -Wno-restrict)
    endif()
  endif()
endfunction()
