# cmake -DOUT=file.cc -DFILES=a.machine;a.table -P embed_machines.cmake
# A string literal ends after 16380 characters for some compilers, so long
# files are joined from several. `sv` has their length: to count it takes more
# steps than clang allows for a constant.
set(text "#include \"simulator/embedded_machines.h\"\n\n")
string(APPEND text "namespace asyra {\n\n")
string(APPEND text "using namespace std::string_view_literals;\n\n")
string(APPEND text "absl::Span<const EmbeddedFile> EmbeddedFiles() {\n")
string(APPEND text "  static constexpr EmbeddedFile kFiles[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\",\n")
  string(LENGTH "${content}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 8000 part)
    string(APPEND text "R\"machine(${part})machine\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND text "\"\"sv},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace asyra\n")
file(WRITE ${OUT} "${text}")
