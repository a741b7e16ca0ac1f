# Libraries that read pictures, packed vocabularies and compressed arrays. Each can be left out (-DKOOFU_JPEG=OFF …); what
# would need it is then refused with a message that says so. CODEC_TARGETS, CODEC_DEFINITIONS and
# CODEC_LINK (for koofu.pc) are for the library.
option(KOOFU_JPEG "Read JPEG (libjpeg-turbo)" ON)
option(KOOFU_PNG "Read PNG (libspng)" ON)
option(KOOFU_WEBP "Read WebP (libwebp)" ON)
option(KOOFU_ZLIB "Read .gz vocabularies and compressed .npz (zlib)" ON)

set(CODEC_TARGETS)
set(CODEC_DEFINITIONS)
set(CODEC_LINK)
# The names of headers, libraries and the package of Debian that has them.
function(koofu_codec name header library package)
  if(NOT KOOFU_${name})
    return()
  endif()
  find_path(${name}_HEADERS ${header})
  find_library(${name}_LIBRARY ${library})
  mark_as_advanced(${name}_HEADERS ${name}_LIBRARY)
  if(NOT ${name}_HEADERS OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${header} or lib${library} is not installed (Debian: ${package}); "
                        "-DKOOFU_${name}=OFF builds without it")
  endif()
  set(CODEC_TARGETS ${CODEC_TARGETS} ${library} PARENT_SCOPE)
  set(CODEC_DEFINITIONS ${CODEC_DEFINITIONS} KF_WITH_${name} PARENT_SCOPE)
  set(CODEC_LINK "${CODEC_LINK} -l${library}" PARENT_SCOPE)
endfunction()
koofu_codec(JPEG jpeglib.h jpeg libjpeg-dev)
koofu_codec(PNG spng.h spng libspng-dev)
koofu_codec(WEBP webp/decode.h webp libwebp-dev)
koofu_codec(ZLIB zlib.h z zlib1g-dev)
