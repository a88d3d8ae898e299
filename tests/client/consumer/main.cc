// Feeds a text to a session, a byte at a time, and prints where the session is.
// Usage: consumer HOST:PORT TEXT
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>

#include "steadystate/client.h"
#include "steadystate/error.h"
#include "steadystate/step_stream.h"

using steadystate::client::Client;
using steadystate::client::StepAnswer;
using steadystate::client::StepStream;

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto client = Client::Connect(argv[1]);
  if (!client.ok()) return 3;
  const auto session = client->CreateSession({});
  if (!session.ok()) return 1;
  const auto stream = StepStream::Open(*client);
  const size_t number = stream->AddSession(session->name(), 0);
  for (const unsigned char byte : std::string(argv[2])) {
    const int32_t token = byte;
    if (!stream->Send(number, {.tokens = {&token, 1}}).ok()) return 1;
  }
  while (const std::optional<StepAnswer> answer = stream->Next()) {
    if (answer->step.ok()) continue;
    std::cerr << steadystate::v1::ErrorReason_Name(
        steadystate::client::ReasonOf(answer->step.status()));
  }
  std::cout << "position " << stream->Standing(number).position << "\n";
  return stream->Finish().ok() ? 0 : 1;
}
