# With ASYRA_UNITY, sources of a target are compiled several at once, which takes
# half of the time. tools/batches.py says which go together.
find_package(Python3 COMPONENTS Interpreter REQUIRED)

function(asyra_unity target)
  get_target_property(sources ${target} SOURCES)
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/
       REGEX "^[^/].*\\.cc$")
  list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/.*\\.cc$")
  list(FILTER sources EXCLUDE REGEX "^${PROJECT_BINARY_DIR}/")  # not yet there
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/batches.py
            ${sources}
    OUTPUT_VARIABLE batches COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" batches "${batches}")
  set(group 0)
  foreach(batch ${batches})
    string(REPLACE "," ";" batch "${batch}")
    math(EXPR group "${group} + 1")
    set_source_files_properties(${batch} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                                             UNITY_BUILD_MODE GROUP)
endfunction()
