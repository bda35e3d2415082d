# ASYRA_CUDNN_FRONTEND: the folder of cudnn_frontend.h, headers that NVIDIA
# distributes as a Python package; one may be named instead. Fetched once into
# the build folder, of the version and hash in cudnn_frontend.txt. Empty, and no
# error, where there is no network or no pip.
set(ASYRA_CUDNN_FRONTEND "" CACHE PATH "Folder of cudnn_frontend.h")
if(NOT ASYRA_CUDNN_FRONTEND)
  set(folder ${PROJECT_BINARY_DIR}/cudnn_frontend)
  set(requirement ${CMAKE_CURRENT_LIST_DIR}/cudnn_frontend.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${requirement})
  find_package(Python3 COMPONENTS Interpreter)
  if(Python3_FOUND AND NOT EXISTS ${folder}/include/cudnn_frontend.h)
    # The wheel of one Python for all: its headers are the same.
    execute_process(
      COMMAND
        ${Python3_EXECUTABLE} -m pip download --quiet --no-deps
        --disable-pip-version-check --only-binary=:all: --python-version 3.12
        --implementation cp --abi cp312 --platform manylinux_2_28_x86_64
        --require-hashes --requirement ${requirement} --dest ${folder}
      RESULT_VARIABLE result
      OUTPUT_QUIET ERROR_QUIET TIMEOUT 120)
    file(GLOB wheel ${folder}/*.whl)
    if(result EQUAL 0 AND wheel)
      file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${folder}
           PATTERNS "include/*")
    endif()
  endif()
  if(EXISTS ${folder}/include/cudnn_frontend.h)
    set(ASYRA_CUDNN_FRONTEND ${folder}/include)
  endif()
endif()
