# With ASYRA_UNITY, sources of a target are compiled several at once, which takes
# half of the time. tools/batches.py says which go together.
find_package(Python3 COMPONENTS Interpreter REQUIRED)

function(asyra_unity target)
  get_target_property(sources ${target} SOURCES)
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/
       REGEX "^[^/].*\\.cc$")
  set(together)
  foreach(source ${sources})
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(source MATCHES "^${PROJECT_SOURCE_DIR}/.*\\.cc$" AND
       NOT source MATCHES "^${PROJECT_BINARY_DIR}/" AND NOT definitions)
      list(APPEND together ${source})
      list(REMOVE_ITEM sources ${source})
    endif()
  endforeach()
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/batches.py
            ${CMAKE_CURRENT_BINARY_DIR}/${target}.batches ${together}
    OUTPUT_VARIABLE batches COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n" ";" batches "${batches}")
  list(REMOVE_ITEM batches "")
  set_target_properties(${target} PROPERTIES SOURCES "${sources};${batches}")
endfunction()
