// What LeakSanitizer finds inside the XLA plugin itself: attributes that its MLIR context never
// frees.

extern "C" __attribute__((visibility("default"), used)) const char* __lsan_default_suppressions();

const char* __lsan_default_suppressions() { return "leak:xla::IndexingMapAttr\n"; }
