# Appends a text to `out` as a C++ string literal. One ends after 16380
# characters for some compilers, so long texts are joined from several.
function(append_string_literal out content)
  set(text "${${out}}")
  string(LENGTH "${content}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 8000 part)
    string(APPEND text "R\"embedded(${part})embedded\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
