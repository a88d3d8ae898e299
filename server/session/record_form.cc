#include "server/session/record_form.h"

#include <cstdint>

namespace steadystate {

void WriteRecord(const RequestRecord& record, BinaryWriter& to) {
  to.Text(record.id);
  to.Number(record.begin);
  to.Number(record.end);
  for (const uint64_t part : record.digest) to.Number(part);
  to.Number(static_cast<uint8_t>(record.finished ? 1 : 0));
  to.Text(record.answer);
}

RequestRecord ReadRecord(BinaryReader& from) {
  RequestRecord record;
  record.id = from.Text();
  record.begin = from.Number<uint64_t>();
  record.end = from.Number<uint64_t>();
  for (uint64_t& part : record.digest) part = from.Number<uint64_t>();
  record.finished = from.Number<uint8_t>() != 0;
  record.answer = from.Text();
  return record;
}

}  // namespace steadystate
