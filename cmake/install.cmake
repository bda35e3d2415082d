# The package that find_package(asyra) finds: the libraries, and the headers that
# embedding programs include, with those that they include in turn.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(asyra_headers ${CMAKE_INSTALL_INCLUDEDIR}/asyra)
set(asyra_package ${CMAKE_INSTALL_LIBDIR}/cmake/asyra)

# What is documented for use from outside (docs/embedding.md).
set(pending
    ir/builder.h ir/interpreter.h ir/parser.h ir/printer.h ir/tensor.h
    ir/verify/verifier.h ir/weights/weight_store.h ir/support/status.h
    simulator/cost/load_machine.h simulator/machine/machine.h
    simulator/replay/sensitivity.h simulator/replay/simulate.h
    simulator/report/trace.h
    passes/compile.h passes/pass_manager.h passes/pipeline.h passes/training.h
    frontends/huggingface/import.h frontends/onnx/import.h
    models/models.h models/rotary_tables.h
    executor/executor.h executor/launched_world.h executor/measured_gate.h
    executor/run.h
    executor/state_set.h executor/trace.h executor/trainer.h
    executor/comm/launcher.h executor/comm/rank_error.h
    executor/comm/secret.h executor/comm/thread_world.h
    executor/train/token_batches.h
    executor/cpu/cpu_device.h executor/cpu/run_on_cpu.h
    executor/mpi/mpi_world.h executor/tcp/tcp_world.h
    executor/cuda/device/cuda_platform.h)
set(public "")
while(pending)
  list(POP_FRONT pending header)
  list(APPEND public ${header})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY
               CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"")
  foreach(line ${lines})
    string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included "${line}")
    if(EXISTS ${PROJECT_SOURCE_DIR}/${included} AND
       NOT included IN_LIST public AND NOT included IN_LIST pending)
      list(APPEND pending ${included})
    endif()
  endforeach()
endwhile()
foreach(header ${public})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
          DESTINATION ${asyra_headers}/${folder})
endforeach()

install(FILES ${PROJECT_SOURCE_DIR}/c/asyra.h DESTINATION ${asyra_headers})

# asyra::ir and so on. The two without an API of their own come along with the
# libraries that need them.
set(libraries asyra_ir asyra_simulator asyra_passes asyra_onnx_proto asyra_onnx
              asyra_huggingface asyra_models asyra_executor asyra_cuda asyra_c)
if(TARGET asyra_cuda_kernels)
  list(APPEND libraries asyra_cuda_kernels)
endif()
foreach(library ${libraries})
  string(REPLACE "asyra_" "" name ${library})
  string(REPLACE "onnx" "frontends" name ${name})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
  # Of the same name for a project that adds this one as a subdirectory.
  add_library(asyra::${name} ALIAS ${library})
endforeach()
target_include_directories(
  asyra_ir INTERFACE $<INSTALL_INTERFACE:${asyra_headers}>
                     $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
target_compile_features(asyra_ir PUBLIC cxx_std_20)
if(TARGET asyra_c_shared)
  set_target_properties(asyra_c_shared PROPERTIES EXPORT_NAME c_shared)
  add_library(asyra::c_shared ALIAS asyra_c_shared)
  target_include_directories(
    asyra_c_shared INTERFACE $<INSTALL_INTERFACE:${asyra_headers}>
                             $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/c>)
  list(APPEND libraries asyra_c_shared)
endif()
install(TARGETS ${libraries} EXPORT asyraTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT asyraTargets NAMESPACE asyra:: DESTINATION ${asyra_package})
set(asyra_has_cuda OFF)
if(TARGET asyra_cuda_kernels)
  set(asyra_has_cuda ON)
endif()
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/asyraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/asyraConfig.cmake INSTALL_DESTINATION ${asyra_package})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/asyraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/asyraConfig.cmake
              ${PROJECT_BINARY_DIR}/asyraConfigVersion.cmake
        DESTINATION ${asyra_package})
install(TARGETS asyra-opt asyra-sim asyra-run asyra-train asyra-bench
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
