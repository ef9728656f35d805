#include "fake_plugin/error.h"

#include <memory>

#include "fake_plugin/table.h"

namespace torch_pjrt::fake {

PJRT_Error* make_error(PJRT_Error_Code code, const std::string& message) {
  auto error = std::make_unique<PJRT_Error>();
  error->code = code;
  error->message = message;
  return error.release();
}

void add_error_functions(Table& table) {
  table.add<&PJRT_Api::PJRT_Error_Destroy>(
      [](auto& args) { std::unique_ptr<PJRT_Error> owner(args.error); });
  table.add<&PJRT_Api::PJRT_Error_Message>([](auto& args) {
    args.message = args.error->message.data();
    args.message_size = args.error->message.size();
  });
  table.add<&PJRT_Api::PJRT_Error_GetCode>([](auto& args) { args.code = args.error->code; });
}

}  // namespace torch_pjrt::fake
