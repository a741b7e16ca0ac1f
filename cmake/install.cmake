# Man pages, shell completion, and what `make install` puts where.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# --- man pages and completion, by the program itself -----------------------------------------------

# Every cli/cmd_X.c is a command, so there is no list to keep in step.
set(MADE_FOLDER ${PROJECT_BINARY_DIR}/share)
file(MAKE_DIRECTORY ${MADE_FOLDER})
set(MAN_PAGES ${MADE_FOLDER}/koofu.1)
set(MAKE_SHARED COMMAND koofu help --man koofu > koofu.1)
foreach(source ${CLI_SOURCES})
  if(source MATCHES "/cmd_([a-z_]+)\\.c$")
    string(REPLACE _ - command ${CMAKE_MATCH_1})
    list(APPEND MAN_PAGES ${MADE_FOLDER}/koofu-${command}.1)
    list(APPEND MAKE_SHARED COMMAND koofu help --man ${command} > koofu-${command}.1)
  endif()
endforeach()
set(COMPLETIONS)
foreach(shell bash zsh fish)
  list(APPEND COMPLETIONS ${MADE_FOLDER}/completion.${shell})
  list(APPEND MAKE_SHARED COMMAND koofu help --completion ${shell} > completion.${shell})
endforeach()
add_custom_command(OUTPUT ${MAN_PAGES} ${COMPLETIONS} ${MAKE_SHARED} WORKING_DIRECTORY ${MADE_FOLDER}
                   DEPENDS koofu COMMENT "Making man pages and completion")
add_custom_target(koofu_share ALL DEPENDS ${MAN_PAGES} ${COMPLETIONS})

install(FILES ${MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${MADE_FOLDER}/completion.bash RENAME koofu
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${MADE_FOLDER}/completion.zsh RENAME _koofu
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${MADE_FOLDER}/completion.fish RENAME koofu.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# --- program, libraries, headers, documents ---------------------------------------------------------

install(TARGETS koofu RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${KOOFU_LIBRARIES} EXPORT koofu
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(GLOB PUBLIC_HEADERS CONFIGURE_DEPENDS include/*.h)
install(FILES ${PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(document LICENSE README.md CHANGELOG.md)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${document})
    install(FILES ${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
  endif()
endforeach()

# --- find_package(koofu): koofu::koofu, and koofu::koofu_static ------------------------------------

set(PACKAGE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/koofu)
install(EXPORT koofu NAMESPACE koofu:: FILE koofuTargets.cmake DESTINATION ${PACKAGE_FOLDER})
configure_package_config_file(cmake/koofuConfig.cmake.in koofuConfig.cmake
                              INSTALL_DESTINATION ${PACKAGE_FOLDER})
set(COMPATIBILITY SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(COMPATIBILITY SameMinorVersion)
endif()
write_basic_package_version_file(koofuConfigVersion.cmake COMPATIBILITY ${COMPATIBILITY})
install(FILES ${PROJECT_BINARY_DIR}/koofuConfig.cmake ${PROJECT_BINARY_DIR}/koofuConfigVersion.cmake
        DESTINATION ${PACKAGE_FOLDER})

# --- pkg-config ------------------------------------------------------------------------------------

set(PC_LIBS "-L\${libdir} -lkoofu")
set(PC_LIBS_PRIVATE "-lpthread -lm${CODEC_LINK}")
if(NOT KOOFU_SHARED)
  set(PC_LIBS "${PC_LIBS} ${PC_LIBS_PRIVATE}")
  set(PC_LIBS_PRIVATE)
endif()
cmake_path(APPEND PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/koofu.pc.in koofu.pc.in @ONLY)
# Its first line is written when it is installed, since only then the prefix is known for certain.
install(CODE "
  file(READ [[${PROJECT_BINARY_DIR}/koofu.pc.in]] text)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX OUTPUT_VARIABLE prefix)
  string(REPLACE \" \" \"\\\\ \" prefix \"\${prefix}\")
  if(NOT prefix STREQUAL \"/usr\") # elsewhere the loader may not look
    string(REPLACE \" -lkoofu\" \" -Wl,-rpath,\\\${libdir} -lkoofu\" text \"\${text}\")
  endif()
  file(WRITE [[${PROJECT_BINARY_DIR}/koofu.pc]] \"prefix=\${prefix}\\n\${text}\")
")
install(FILES ${PROJECT_BINARY_DIR}/koofu.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
