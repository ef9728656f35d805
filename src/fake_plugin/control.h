/* What a test asks of the fake plugin and tells it; the functions are found by dlsym. */
#ifndef TORCH_PJRT_FAKE_PLUGIN_CONTROL_H_
#define TORCH_PJRT_FAKE_PLUGIN_CONTROL_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the `nth` call from now of a function, e.g. "PJRT_Client_Compile", return an error; 1 is
   the next call. The call does nothing else, except that a destructor frees its object all the
   same, since its caller couldn't try again. Replaces an earlier order for that function. False if
   the plugin has no such function, if the function can't return an error (PJRT_Error_Destroy and
   PJRT_Error_Message), or if `nth` isn't positive. */
bool torch_pjrt_fake_fail_at(const char* function, int64_t nth);

/* Number of calls of a function since the last reset, with those that failed; -1 if the plugin has
   no such function. */
int64_t torch_pjrt_fake_calls(const char* function);

/* Number of objects of a kind that were made and not yet destroyed: "buffer", "event", "executable"
   (loaded or not), "client" or "error"; -1 for another kind. */
int64_t torch_pjrt_fake_live(const char* kind);

/* Sets the numbers of calls to 0 and forgets all orders to fail. */
void torch_pjrt_fake_reset(void);

/* Name of the `index`-th function that the plugin has; null from the last on. */
const char* torch_pjrt_fake_function(int64_t index);

#ifdef __cplusplus
}
#endif

#endif /* TORCH_PJRT_FAKE_PLUGIN_CONTROL_H_ */
