// Plugins that aren't quite: each is built from this with one of the definitions.
#include <pjrt_c_api.h>

#include <cstddef>

#ifndef MAJOR
#define MAJOR PJRT_API_MAJOR
#endif
#ifndef SIZE
#define SIZE sizeof(PJRT_Api)
#endif

#ifdef NO_SYMBOL
extern "C" __attribute__((visibility("default"))) int another_function() { return 1; }
#else
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
#ifdef NO_TABLE
  return nullptr;
#else
  static const PJRT_Api table = [] {
    PJRT_Api api = {};
    api.struct_size = SIZE;
    api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, MAJOR, 7};
    // Beyond the end of a short table, where nobody may look.
    api.PJRT_Client_Create = [](PJRT_Client_Create_Args*) -> PJRT_Error* { __builtin_trap(); };
    return api;
  }();
  return &table;
#endif
}
#endif
