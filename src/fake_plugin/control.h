/* What a test asks of the fake plugin and tells it; the functions are found by dlsym. */
#ifndef TORCH_PJRT_FAKE_PLUGIN_CONTROL_H_
#define TORCH_PJRT_FAKE_PLUGIN_CONTROL_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets how clients made from now on behave; each mode is also an option of PJRT_Client_Create by
   the same name, which goes before what is set here. False if there is no such mode or value.

   "devices"     int: number of devices; 1 unless set.
   "own_memory"  bool (here 0 or 1): buffers are always copies in memory of the plugin's own that
   has no address, which is filled with bytes 0xFF when it is taken and when it is freed: a value
   that was never written, or is gone, reads as NaN or -1. "strict"      bool: a fault of the caller
   ends the process, with a line on stderr: the use of an object after its destruction, of a buffer
   after its deletion or donation, an argument of another dtype or shape than the program's, donated
   memory that overlaps another argument's, an object that outlives its client, an event or error
   that is there when the process exits. Memory of destroyed objects is never freed.
   "late_ms"     int: an execution ends so many milliseconds after its call has returned, and what
   waits for it or for its results is told by a thread of the plugin's; 0 unless set. */
bool torch_pjrt_fake_set(const char* mode, int64_t value);

/* Makes GetPjrtApi give a table of minor version `minor` from now on, as an older or a newer plugin
   does. The table ends before the function `end`; with null it is whole, and with a minor version
   above the header's it goes on with entries that the header doesn't know. False if there is no
   such function. Tables given out before stay as they are. */
bool torch_pjrt_fake_set_api(int64_t minor, const char* end);

/* Makes the `nth` call from now of a function, e.g. "PJRT_Client_Compile", return an error; 1 is
   the next call. The error's code is INTERNAL. The call does nothing else, except that a destructor
   frees its object all the same, since its caller couldn't try again. Replaces an earlier order for
   that function. False if the plugin has no such function, if the function can't return an error
   (PJRT_Error_Destroy and PJRT_Error_Message), or if `nth` isn't positive. */
bool torch_pjrt_fake_fail_at(const char* function, int64_t nth);

/* The same with another PJRT_Error_Code, e.g. 8 for RESOURCE_EXHAUSTED. */
bool torch_pjrt_fake_fail_with(const char* function, int64_t nth, int32_t code);

/* Makes each call of a function take `ms` milliseconds longer, until told otherwise. False if there
   is no such function or `ms` is negative. */
bool torch_pjrt_fake_delay(const char* function, int64_t ms);

/* Number of calls of a function since the last reset, with those that failed; -1 if the plugin has
   no such function. */
int64_t torch_pjrt_fake_calls(const char* function);

/* Number of objects of a kind that were made and not yet destroyed: "buffer", "event", "executable"
   (loaded or not), "client" or "error"; -1 for another kind. */
int64_t torch_pjrt_fake_live(const char* kind);

/* Number of executions that have begun and not ended, which "late_ms" makes. */
int64_t torch_pjrt_fake_running(void);

/* Sets the numbers of calls to 0 and forgets all orders to fail or to be slow. Modes and version
 * stay. */
void torch_pjrt_fake_reset(void);

/* Name of the `index`-th function that the plugin has; null from the last on. */
const char* torch_pjrt_fake_function(int64_t index);

#ifdef __cplusplus
}
#endif

#endif /* TORCH_PJRT_FAKE_PLUGIN_CONTROL_H_ */
