// Encodes TensorBoard's event files: a file is a sequence of records, each holding one Event.
//
// Sources: tensorflow/core/lib/io/record_writer.h (a record: length, masked CRC-32C of it, data, masked CRC-32C of the
// data), tensorflow/core/lib/hash/crc32c.h (the mask), tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto (Event, SessionLog, Summary), protobuf.dev/programming-guides/encoding.
// Pure: values in, bytes out. Strings that are not UTF-8 are written as they are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::train {

// Castagnoli's polynomial, as in RFC 3720, appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

std::string tf_record(std::string_view data);

// `wall_time` in seconds since 1970.
std::string file_version_event(double wall_time);  // the first one of a file
// Makes TensorBoard drop `first_step` and later ones of earlier files.
std::string session_start_event(double wall_time, std::int64_t first_step);
// One scalar per name, as a float.
std::string scalars_event(double wall_time, std::int64_t step,
                          const std::vector<std::pair<std::string, double>>& values);

// events.out.tfevents.<seconds>.<host>.<pid>. TensorBoard reads the files of a folder in the order of their names, so
// the seconds are `now`, or one more than in the newest existing name.
std::string event_file_name(const std::vector<std::string>& existing_names, std::int64_t now, const std::string& host,
                            std::int64_t pid);

}  // namespace ddprun::train
