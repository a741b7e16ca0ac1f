#!/bin/sh
# Prints the path of nvcc: $NVCC, in PATH, below $CUDA_HOME or /usr/local/cuda, or among the Python packages of
# this user or of build-nvcc, an environment for it alone. If there is none, says how to install it.
set -eu
own=$(cd "$(dirname "$0")/.." && pwd)/build-nvcc
wheels=$(python3 -c 'import site, sysconfig
print(*[sysconfig.get_paths()["purelib"], site.getusersitepackages()], sep="\n")' 2>/dev/null || true)
found() {
  [ -n "$1" ] && [ -x "$1" ] && echo "$1" && exit 0
  return 0
}
found "${NVCC:-}"
found "$(command -v nvcc || true)"
[ -z "${CUDA_HOME:-}" ] || found "$CUDA_HOME/bin/nvcc"
found /usr/local/cuda/bin/nvcc
for folder in $wheels "$own"/lib/python3*/site-packages; do
  for nvcc in "$folder"/nvidia/cu*/bin/nvcc "$folder"/nvidia/cuda_nvcc/bin/nvcc; do found "$nvcc"; done
done
cat >&2 <<'EOF'
koofu: there is no nvcc, which compiles the plug-in for NVIDIA GPUs. Install the CUDA Toolkit 12.4 or newer from
NVIDIA or your distribution and put nvcc into PATH (or set NVCC or CUDA_HOME), or get it as Python packages, in a
folder of their own, where it is found:
    python3 -m venv build-nvcc
    build-nvcc/bin/pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl
No GPU is needed to build the plug-in. koofu itself builds and works without it.
EOF
exit 1
