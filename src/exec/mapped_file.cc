#include "exec/mapped_file.h"

#include <sys/mman.h>

#include "base/regular_file.h"

namespace ztplan {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const RegularFile file(path);
  const auto size = static_cast<std::size_t>(file.size().value);
  if (size == 0) refuse_to_read(path, "it is empty", "");
  void* memory =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) refuse_as_system_says(path);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  // munmap takes what mmap gave, which was not const.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ztplan
