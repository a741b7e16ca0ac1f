/* help_text.c - texts about koofu itself. */
#include "help.h"

const char program_summary[] = "a better, smaller embedding space in closed form";

const char program_details[] =
    "koofu takes embeddings (rows of D numbers, such as CLIP image embeddings) with class labels "
    "and computes a linear map that whitens the scatter within classes and rotates to the "
    "directions that tell classes apart. In the mapped space the nearest class mean (the "
    "prototype) is a better classifier than in the original one, and the first L coordinates are a "
    "smaller embedding. Nothing is trained.\n\n"
    "Data sets, statistics, models and galleries are plain .safetensors files. The same input "
    "gives the same bytes, whatever the number of threads, the instruction set, and the order and "
    "number of files.\n\n"
    "Results go to standard output, everything else to standard error. Progress is shown only on a "
    "terminal. An output file appears complete or not at all; an interrupted command leaves "
    "nothing behind, except for the shards with which 'koofu embed' resumes. '--' ends the "
    "options.\n\n"
    "'-' in place of an input file is standard input; a pipe or FIFO may also be named, such as "
    "the one that a shell makes for <(...). A stream is first copied to a temporary file in "
    "$TMPDIR (or /var/tmp). Its format, .npy, .npz, .safetensors or text, is recognised by its "
    "magic bytes. Folders and pictures cannot be streams. A file named - is ./-.";

const cli_example program_examples[] = {
    {"See what koofu does, on a synthetic world", "koofu demo"},
    {"From a folder of pictures to a classifier", "koofu quickstart photos --encoder clip"},
    {"Fit a model", "koofu fit train.npy --labels train.txt -o model.safetensors"},
    {"Measure it", "koofu eval model.safetensors test.npy --labels test.txt"},
    {"Use it", "koofu classify model.safetensors photos.npy --top 5"},
    {"Make a gallery", "koofu index photos.npy --model model.safetensors -o gallery.safetensors"},
    {"Search in it", "koofu search gallery.safetensors query.npy -k 5"},
    {NULL, NULL}};

const cli_topic program_topics[] = {
    {"Exit status", " 0  success\n"
                    " 1  internal error or out of memory\n"
                    " 2  usage: a wrong option or argument\n"
                    " 3  bad data: a malformed file or row, or a problem without an answer\n"
                    " 4  input or output: missing, unreadable, disk full, no permission\n"
                    "After 0 the output files are in their places; after any other status, or a\n"
                    "signal, they are as they were before."},
    {"Environment",
     " KOOFU_THREADS  the number of threads, unless --threads is given\n"
     " KOOFU_ISA      the instruction set, unless --isa is given\n"
     " KOOFU_DEVICE   where to work, unless --device is given\n"
     " KOOFU_DEVICE_PLUGIN\n"
     "                the file of the plug-in for GPUs (default: libkoofu-cuda.so, next\n"
     "                to the program, in ../lib or installed)\n"
     " KOOFU_PROGRESS seconds between lines of progress where standard error is not a\n"
     "                terminal (default: no such lines; 30 with several ranks)\n"
     " TMPDIR         where copies of streams are kept (default: /var/tmp)\n"
     "A set-user-ID program ignores them."},
    {NULL, NULL}};
