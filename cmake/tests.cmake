# Every tests/<suite>/test_*.c is one cmocka program and one ctest; every tests/cli/test_*.sh and tests/lint/*.sh one
# ctest. Labels: the suite, and `slow` for what `make test` leaves to `make test-all`.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

set(GOLDEN_DIR ${CMAKE_SOURCE_DIR}/../shared/golden)
set(TOOLS_DIR ${CMAKE_BINARY_DIR}/tools)
# mca_base_env_list is for what mpirun starts: Open MPI unloads its parts, so only the outer frames of its leaks can be
# recognised.
set(TEST_ENVIRONMENT "TESSERA=$<TARGET_FILE:tessera>;TESSERA_SOURCE=${CMAKE_SOURCE_DIR};TESSERA_BUILD=${CMAKE_BINARY_DIR}"
    "TESSERA_TOOLS=${TOOLS_DIR};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    "TESSERA_GOLDEN=${GOLDEN_DIR};TSAN_OPTIONS=halt_on_error=1;LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0"
    "OMPI_MCA_mca_base_env_list=ASAN_OPTIONS=fast_unwind_on_malloc=0")

file(GLOB SUPPORT_SOURCES CONFIGURE_DEPENDS tests/support/*.c)
add_library(test_support STATIC ${SUPPORT_SOURCES})
target_include_directories(test_support PUBLIC tests/support src include)
target_link_libraries(test_support PUBLIC tessera_static ${TESSERA_LIBRARIES} PkgConfig::CMOCKA)

function(tessera_register name suite)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${TEST_ENVIRONMENT}" SKIP_RETURN_CODE 77 TIMEOUT 600
                       LABELS "${suite};${ARGN}")
  if("slow" IN_LIST ARGN)
    set_tests_properties(${name} PROPERTIES TIMEOUT 1800)
  endif()
endfunction()

# A program of several ranks (tests/support/ranks.h), at each of the sizes, as threads and as processes.
function(tessera_parallel_test name)
  cmake_parse_arguments(TEST "" "" "RANKS" ${ARGN})
  add_executable(${name} tests/parallel/${name}.c)
  target_link_libraries(${name} PRIVATE test_support)
  foreach(ranks ${TEST_RANKS})
    add_test(NAME parallel/${name}_threads_${ranks} COMMAND ${name} --ranks ${ranks} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set(registered parallel/${name}_threads_${ranks})
    if(TESSERA_CPU_DEVICE) # without it ThreadSanitizer is at work, which knows nothing of MPI's shared memory
      add_test(NAME parallel/${name}_mpi_${ranks} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe -n ${ranks}
               $<TARGET_FILE:${name}> WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      list(APPEND registered parallel/${name}_mpi_${ranks})
    endif()
    foreach(test ${registered})
      tessera_register(${test} parallel)
      set_tests_properties(${test} PROPERTIES PROCESSORS ${ranks})
    endforeach()
  endforeach()
endfunction()

tessera_parallel_test(test_comm RANKS 1 2 3 4)
tessera_parallel_test(test_klein_ranks RANKS 1 2 4)
tessera_parallel_test(test_save RANKS 1 2 4)
tessera_parallel_test(test_layers RANKS 1 2 4)
tessera_parallel_test(test_two_ways_in RANKS 1 2 4)
tessera_parallel_test(test_attention RANKS 1 2 3 4 5)
tessera_parallel_test(test_sequence RANKS 2 3 4)
tessera_parallel_test(test_context_plan RANKS 2 3)
tessera_parallel_test(test_context_parallel RANKS 2 3 4 8)

foreach(name test_launch test_plan test_shards)
  add_executable(${name} tests/parallel/${name}.c)
  target_link_libraries(${name} PRIVATE test_support)
  add_test(NAME parallel/${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  tessera_register(parallel/${name} parallel)
endforeach()
if(NOT TESSERA_CPU_DEVICE)
  return() # the other tests compute on the device cpu or run the command on it
endif()

foreach(suite unit ops models fault parallel)
  file(GLOB sources CONFIGURE_DEPENDS tests/${suite}/test_*.c)
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    if(TARGET ${name})
      continue() # of several ranks: above
    endif()
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE test_support)
    add_test(NAME ${suite}/${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    tessera_register(${suite}/${name} ${suite})
  endforeach()
endforeach()

# The command's own functions are tested without the command.
set(CLI_FUNCTIONS ${CLI_SOURCES})
list(FILTER CLI_FUNCTIONS EXCLUDE REGEX /main\\.c$)
target_sources(test_preview PRIVATE ${CLI_FUNCTIONS})

# tests/tools/some_name.c is the program tessera-some-name, for the scripts of tests/cli.
file(GLOB TOOLS CONFIGURE_DEPENDS tests/tools/*.c)
foreach(source ${TOOLS})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "_" "-" program tessera-${name})
  add_executable(${program} ${source})
  target_include_directories(${program} PRIVATE src)
  target_link_libraries(${program} PRIVATE tessera_static)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${TOOLS_DIR})
endforeach()
target_link_libraries(tessera-mpi-host PRIVATE MPI::MPI_C)

foreach(suite cli lint parallel)
  file(GLOB scripts CONFIGURE_DEPENDS tests/${suite}/test_*.sh)
  foreach(script ${scripts})
    get_filename_component(name ${script} NAME_WE)
    file(STRINGS ${script} slow REGEX "^# label: slow" LIMIT_COUNT 1)
    add_test(NAME ${suite}/${name} COMMAND bash ${script} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(slow)
      tessera_register(${suite}/${name} ${suite} slow)
    else()
      tessera_register(${suite}/${name} ${suite})
    endif()
  endforeach()
endforeach()

file(GLOB EXAMPLES CONFIGURE_DEPENDS examples/*.c)
foreach(source ${EXAMPLES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE tessera_static)
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY
                        ${CMAKE_BINARY_DIR}/examples)
endforeach()
