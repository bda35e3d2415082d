# What an embedding program needs: the libraries of the language and the
# executor, their headers, and find_package(asyra).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(asyra_headers ${CMAKE_INSTALL_INCLUDEDIR}/asyra)
set(asyra_package ${CMAKE_INSTALL_LIBDIR}/cmake/asyra)

foreach(folder ir executor)
  target_include_directories(asyra_${folder}
                             INTERFACE $<INSTALL_INTERFACE:${asyra_headers}>)
  target_compile_features(asyra_${folder} PUBLIC cxx_std_20)
  set_target_properties(asyra_${folder} PROPERTIES EXPORT_NAME ${folder})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION
          ${asyra_headers} FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS asyra_ir asyra_executor EXPORT asyraTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT asyraTargets NAMESPACE asyra:: DESTINATION ${asyra_package})
configure_file(${CMAKE_CURRENT_LIST_DIR}/asyraConfig.cmake.in
               ${PROJECT_BINARY_DIR}/asyraConfig.cmake @ONLY)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/asyraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/asyraConfig.cmake
              ${PROJECT_BINARY_DIR}/asyraConfigVersion.cmake
        DESTINATION ${asyra_package})
