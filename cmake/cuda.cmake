# The plug-in for NVIDIA GPUs, libkoofu-cuda.so: code for sm_80 (mma.sync) and sm_90a (wgmma), and PTX for what
# comes later; its own runtime, no other library of CUDA; one exported name. The library does not need it.
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/nvcc.sh OUTPUT_VARIABLE KOOFU_NVCC
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE MISSING)
if(MISSING)
  message(FATAL_ERROR "KOOFU_CUDA needs nvcc")
endif()

# No contraction: the bits of every sum are part of the interface.
set(CUDA_FLAGS -std=c++17 -O3 --fmad=false -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/src/device
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a
    -gencode arch=compute_90,code=compute_90
    -Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off,-Wall,-Wextra)
set(CUDA_FOLDER ${PROJECT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${CUDA_FOLDER})
file(GLOB CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/*.cu)
foreach(source ${CUDA_SOURCES})
  get_filename_component(name ${source} NAME)
  set(object ${CUDA_FOLDER}/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${KOOFU_NVCC} ${CUDA_FLAGS} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "Building CUDA object ${name}" VERBATIM)
  list(APPEND CUDA_OBJECTS ${object})
endforeach()
set(CUDA_MAP ${PROJECT_SOURCE_DIR}/cmake/cuda.map)
set(CUDA_LIBRARY ${PROJECT_BINARY_DIR}/libkoofu-cuda.so)
add_custom_command(OUTPUT ${CUDA_LIBRARY}
  COMMAND ${KOOFU_NVCC} -shared -cudart static -o ${CUDA_LIBRARY} ${CUDA_OBJECTS}
          -Xlinker --version-script=${CUDA_MAP} -Xlinker -z,defs -Xcompiler=-static-libgcc,-static-libstdc++
  DEPENDS ${CUDA_OBJECTS} ${CUDA_MAP} COMMENT "Linking libkoofu-cuda.so" VERBATIM)
add_custom_target(koofu_cuda ALL DEPENDS ${CUDA_LIBRARY})
install(FILES ${CUDA_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR}
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# The plug-in by itself against plain loops, for a machine with a GPU.
if(KOOFU_TESTS OR KOOFU_DEVICE_TESTS OR KOOFU_BENCH)
  set(CUDA_CHECK ${PROJECT_BINARY_DIR}/koofu-cuda-check)
  file(GLOB CUDA_CHECK_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cuda/check/*.cu)
  add_custom_command(OUTPUT ${CUDA_CHECK}
    COMMAND ${KOOFU_NVCC} ${CUDA_FLAGS} ${CUDA_CHECK_SOURCES} ${CUDA_OBJECTS} -cudart static
            -Xcompiler=-static-libgcc,-static-libstdc++ -o ${CUDA_CHECK}
    DEPENDS ${CUDA_CHECK_SOURCES} ${CUDA_OBJECTS} COMMENT "Building koofu-cuda-check" VERBATIM)
  # Real faults of a GPU, for tests/test_device_lost.c; no part of the plug-in.
  set(CUDA_SPOILER ${PROJECT_BINARY_DIR}/tests/libkoofu-spoil.so)
  set(CUDA_SPOILER_SOURCE ${PROJECT_SOURCE_DIR}/tests/between/spoil.cu)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_custom_command(OUTPUT ${CUDA_SPOILER}
    COMMAND ${KOOFU_NVCC} ${CUDA_FLAGS} -shared -cudart static ${CUDA_SPOILER_SOURCE} -o ${CUDA_SPOILER}
    DEPENDS ${CUDA_SPOILER_SOURCE} COMMENT "Building libkoofu-spoil.so" VERBATIM)
  add_custom_target(koofu_cuda_check ALL DEPENDS ${CUDA_CHECK} ${CUDA_SPOILER})
endif()
