# cmake -DOUT=file.cc -DFILES=a.js;b.css -P embed_page.cmake
set(text "#include \"simulator/report/page_assets.h\"\n\n")
string(APPEND text "#include \"ir/support/check.h\"\n\n")
string(APPEND text "namespace asyra {\n\n")
string(APPEND text "std::string_view PageAsset(std::string_view name) {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text
         "  if (name == \"${name}\") return R\"asset(${content})asset\";\n")
endforeach()
string(APPEND text "  ASYRA_CHECK(false);\n  return {};\n}\n\n")
string(APPEND text "}  // namespace asyra\n")
file(WRITE ${OUT} "${text}")
