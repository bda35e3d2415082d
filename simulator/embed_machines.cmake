# cmake -DOUT=file.cc -DFILES=a.machine;a.table -P embed_machines.cmake
# `sv` has the length of a literal: to count it takes more steps than clang
# allows for a constant.
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/string_literal.cmake)
set(text "#include \"simulator/machine/embedded_machines.h\"\n\n")
string(APPEND text "namespace asyra {\n\n")
string(APPEND text "using namespace std::string_view_literals;\n\n")
string(APPEND text "absl::Span<const EmbeddedFile> EmbeddedFiles() {\n")
string(APPEND text "  static constexpr EmbeddedFile kFiles[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\",\n")
  append_string_literal(text "${content}")
  string(APPEND text "\"\"sv},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace asyra\n")
file(WRITE ${OUT} "${text}")
