# `make install`: headers, both libraries, the command, pkg-config (tessera) and a CMake package (tessera::shared,
# tessera::static).
set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(TARGETS tessera_shared tessera_static EXPORT tessera_targets)
install(TARGETS tessera)
install(DIRECTORY include/tessera TYPE INCLUDE FILES_MATCHING PATTERN *.h)

# What the static library needs, as plain names: an installed package must not point at paths of the build machine.
set(STATIC_LIBRARIES jansson pcre2-8 utf8proc spng ${MPI_C_LIB_NAMES} pthread m)
if(TESSERA_CPU_DEVICE)
  list(APPEND STATIC_LIBRARIES dnnl ${OpenMP_C_LIB_NAMES})
endif()
list(TRANSFORM STATIC_LIBRARIES PREPEND -l OUTPUT_VARIABLE STATIC_LINK_FLAGS)
list(JOIN STATIC_LINK_FLAGS " " STATIC_LINK_FLAGS)
target_link_libraries(tessera_static INTERFACE "$<INSTALL_INTERFACE:${STATIC_LIBRARIES}>")

file(RELATIVE_PATH PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/tessera.pc.in tessera.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT tessera_targets NAMESPACE tessera:: DESTINATION ${PACKAGE_DIR})
configure_package_config_file(cmake/tessera-config.cmake.in tessera-config.cmake INSTALL_DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(tessera-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tessera-config.cmake ${CMAKE_BINARY_DIR}/tessera-config-version.cmake
        DESTINATION ${PACKAGE_DIR})
