#include "trainer/ddp/snapshot/other_files.h"

#include "tests/support/test.h"

using namespace std::string_literals;

namespace {

std::string told(const std::string& bytes, const std::string& path = "weights.pt") {
  const auto other = other_file(bytes, path);
  return other ? other->what + ". " + other->remedy : "";
}

std::string tar_with(const std::vector<std::string>& names) {
  std::string bytes;
  for (const std::string& name : names) {
    std::string header(512, '\0');
    header.replace(0, name.size(), name);
    header.replace(124, 11, "00000000003");
    header.replace(257, 5, "ustar");
    bytes += header + "abc" + std::string(509, '\0');
  }
  return bytes + std::string(1024, '\0');
}

}  // namespace

TEST_CASE("files of other programs are named", "[weights]") {
  CHECK_THAT(told("GGUF\x03\0\0\0"s), Contains("it is a GGUF file"));
  CHECK_THAT(told("\x89HDF\r\n\x1a\n\0"s), Contains("it is an HDF5 file"));
  CHECK_THAT(told("\x08\x08\x12\x07pytorch"), Contains("it is an ONNX file"));
  CHECK_THAT(told("\x08\x01\x12\x07"), Contains("it is a SavedModel of TensorFlow"));
  CHECK_THAT(told("anything", "m.ckpt.data-00000-of-00001"), Contains("a checkpoint of TensorFlow"));
  CHECK_THAT(told("\0\0\0\0\x57\xfb\x80\x8b\x24\x75\x47\xdb"s), Contains("a checkpoint of TensorFlow"));
  CHECK_THAT(told("\x1c\0\0\0TFL3...."s), Contains("TensorFlow Lite"));
  CHECK_THAT(told("\x93NUMPY\x01\0"s), Contains("it is a .npy file of NumPy"));
  CHECK_THAT(told("\xff\xfe\x01"), Contains("it is neither a file of torch.save nor of safetensors, or it is damaged"));
}

TEST_CASE("what was saved in the place of weights is told from them", "[weights]") {
  CHECK_THAT(told(""), Contains("it is empty"));
  CHECK_THAT(told("\n<!DOCTYPE HTML>\n<html>"), Contains("it is a web page"));
  CHECK_THAT(told("<html lang=en>"), Contains("it is a web page"));
  CHECK_THAT(told("<?xml version='1.0'?><Error>"), Contains("it is XML"));
  CHECK_THAT(told("version https://git-lfs.github.com/spec/v1\noid"), Contains("a pointer of Git LFS"));
  CHECK_THAT(told("{\"hidden\": 4}"), Contains("it is a JSON file"));
  CHECK_THAT(told("these are no weights"), Contains("it is a text file"));
}

TEST_CASE("what packs a file is told with the command that unpacks it", "[weights]") {
  CHECK_THAT(told("\x1f\x8b\x08", "a.pt.gz"), Contains("Unpack it with gunzip a.pt.gz"));
  CHECK_THAT(told("\x1f\x8b\x08", "a b.pt"), Contains("gunzip <'a b.pt' >'a b.pt.unpacked'"));
  CHECK_THAT(told("\x1f\x8b\x08", "a.tar.gz"), Contains("Unpack it with tar -xzf a.tar.gz"));
  CHECK_THAT(told("BZh9"), Contains("bunzip2"));
  CHECK_THAT(told("\xfd\x37zXZ\0"s), Contains("unxz"));
  CHECK_THAT(told(tar_with({"one.pt", "two.pt"}), "a.tar"),
             Contains("a tar archive with one.pt and two.pt. Unpack it with tar -xf a.tar"));
  CHECK_THAT(told(tar_with({"storages", "tensors", "pickle"})),
             Contains("a tar archive of PyTorch 0.1. ") &&
                 Contains("torch.save(torch.load('weights.pt', 'cpu', weights_only=False), 'weights.pt.pt')"));
  CHECK_THAT(told("PK\x03\x04 and no end"), Contains("its end is missing"));
}

TEST_CASE("files that are read are no others, nor is a quote in a name carried into a command", "[weights]") {
  CHECK(told(test::read_file(test::source_folder() + "/tests/trainer/testdata/small.pt")) == "");
  CHECK(told("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.") == "");
  CHECK(told("\x02\0\0\0\0\0\0\0{}"s) == "");
  CHECK_THAT(told("\x80\x04}.", "it's.pkl"), Contains("open('FILE', 'rb')"));
}

TEST_CASE("folders of checkpoints are named", "[weights]") {
  const auto folder = [](const std::vector<std::string>& names) {
    const auto other = other_folder(names, "run/last");
    return other ? other->what + ". " + other->remedy : "";
  };
  CHECK_THAT(folder({".metadata", "__0_0.distcp"}), Contains("format_utils dcp_to_torch run/last run/last.pt"));
  CHECK_THAT(folder({"saved_model.pb", "variables"}), Contains("a SavedModel of TensorFlow"));
  CHECK_THAT(folder({"data", "data.pkl", "version"}), Contains("cd run && zip -0 -r last.pt last"));
  CHECK(folder({"notes.txt"}) == "");
}
