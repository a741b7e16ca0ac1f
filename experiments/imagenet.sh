#!/bin/sh
# Every table of the paper, from embeddings of IN-1k, IN-21k and of prompts. docs/experiments.md says what is in
# the tables and how each figure is defined; here are the commands, all of them with the paper's method. What
# koofu prints goes to OUT/work, one file for each measurement; tables.py makes tables of it. Existing
# files are kept, so a run can be interrupted at any time and resumed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  cat << 'END'
usage: imagenet.sh --train-1k DATA --val DATA --out FOLDER [OPTION...]

Embeddings, in any form that koofu reads (a file, a folder, a quoted pattern)
  --train-1k DATA         training rows of IN-1k
  --train-1k-labels FILE  their labels, where these are not inside
  --classes-1k FILE       the names (WordNet ids) that numbers stand for
  --train-21k DATA        training rows of IN-21k; without them, tables have the
                          rows and columns of IN-1k alone
  --train-21k-labels FILE, --classes-21k FILE
  --val DATA              validation rows of IN-1k
  --val-labels FILE       their labels
  --val-classes FILE      (default: --classes-1k, with --val-labels)

Text, for the tables zeroshot and zeroshot-dims: any of the paper's three kinds of
prompts. Each is a file of 'koofu text-prototypes', or embeddings of prompts, class
by class in the order of --text-classes.
  --text-synset DATA      one prompt with the name from WordNet
  --text-synset7 DATA     seven prompts
  --text-mod7 DATA        seven prompts with modified names
  --text-classes FILE     classes of embeddings (default: --classes-1k)
  --per-class M           how many embeddings each class has in --text-synset7
                          and --text-mod7 (default: as many as there are)

Ground truth
  --clean FILE            clean_validation.csv: the columns 'Clean'
  --real FILE             real.json: columns 'ReaL', which the paper does not have
  --val-ids FILE          the file name of each validation row, one per line
                          (default: ILSVRC2012_val_00000001, ... in this order)
  --hierarchy FILE        class_hierarchy.txt: the class groups, and the set 14K
  --names FILE            names of classes, for those that the hierarchy lacks

What is measured
  --only TABLE            this table alone; may be given several times
  --lambda-1k L, --lambda-21k L
                          lambda of the two spaces (default: 150 and 1500)
  --euclid-lambda-1k L, --euclid-lambda-21k L
                          of rows with their own lengths (default: 50000 and 100000)
  --lambdas-1k L,... --lambdas-21k L,... --lambdas-text L,... --euclid-lambdas L,...
                          of the tables over lambda (default: those of the paper)
  --relative              the defaults as multiples of the mean eigenvalue of S_w
                          instead (150 is 0.3x), for data of another size
  --dims L,...            dimensions (default: the paper's eleven, or as large
                          shares of another number)
  --knn-between 1K|21K    where S_b of the dimensions of k-NN is from (default: 21K)
  --repeat N              time each search N times and take the best (default: 3)
  --quick                 three dimensions, three lambdas, no galleries with
                          distractors, searches timed once

How
  --out FOLDER            where tables go: TABLE.md, TABLE.csv, tables.md
  --force                 make tables again that are there
  --beside-paper          the paper's figures also beside data of other sizes
  --threads N             for koofu (default: one per processor)
  --koofu PATH            the program (default: build/koofu here, or that in PATH)
  --list                  list the tables
  -h, --help

Every option can be an environment variable instead: KOOFU_TRAIN_1K for --train-1k.
END
}

fail() {
  echo "imagenet.sh: $*" >&2
  exit 1
}
refuse() { # a mistake in the options
  echo "imagenet.sh: $*; see imagenet.sh --help" >&2
  exit 2
}
say() { echo "$(date +%H:%M:%S) $*" >&2; }

all_tables='synsets nvp knn dims-nvp dims-knn efficiency lambda-1k lambda-21k k zeroshot zeroshot-dims euclid-nvp euclid-dims euclid-lambda'

# --- options --------------------------------------------------------------------------------------

train_1k=${KOOFU_TRAIN_1K:-} train_1k_labels=${KOOFU_TRAIN_1K_LABELS:-} classes_1k=${KOOFU_CLASSES_1K:-}
train_21k=${KOOFU_TRAIN_21K:-} train_21k_labels=${KOOFU_TRAIN_21K_LABELS:-} classes_21k=${KOOFU_CLASSES_21K:-}
val=${KOOFU_VAL:-} val_labels=${KOOFU_VAL_LABELS:-} val_ids=${KOOFU_VAL_IDS:-}
val_classes=${KOOFU_VAL_CLASSES:-} clean=${KOOFU_CLEAN:-} real=${KOOFU_REAL:-} hierarchy=${KOOFU_HIERARCHY:-} names=${KOOFU_NAMES:-}
text_synset=${KOOFU_TEXT_SYNSET:-} text_synset7=${KOOFU_TEXT_SYNSET7:-} text_mod7=${KOOFU_TEXT_MOD7:-}
text_classes=${KOOFU_TEXT_CLASSES:-} per_class=${KOOFU_PER_CLASS:-} lambdas_text=${KOOFU_LAMBDAS_TEXT:-}
lambda_1k=${KOOFU_LAMBDA_1K:-} lambda_21k=${KOOFU_LAMBDA_21K:-}
euclid_1k=${KOOFU_EUCLID_LAMBDA_1K:-} euclid_21k=${KOOFU_EUCLID_LAMBDA_21K:-}
lambdas_1k=${KOOFU_LAMBDAS_1K:-} lambdas_21k=${KOOFU_LAMBDAS_21K:-} euclid_lambdas=${KOOFU_EUCLID_LAMBDAS:-}
dims=${KOOFU_DIMS:-} knn_between=${KOOFU_KNN_BETWEEN:-21K} repeat=${KOOFU_REPEAT:-}
relative=${KOOFU_RELATIVE:-} quick=${KOOFU_QUICK:-} force=${KOOFU_FORCE:-} beside=${KOOFU_BESIDE_PAPER:-}
out=${KOOFU_OUT:-} threads=${KOOFU_THREADS:-} koofu=${KOOFU_KOOFU:-} only=${KOOFU_ONLY:-}

while [ $# -gt 0 ]; do
  case $1 in
    --relative) relative=1 ;;
    --quick) quick=1 ;;
    --force) force=1 ;;
    --beside-paper) beside=1 ;;
    --list) echo "$all_tables" | tr ' ' '\n' && exit 0 ;;
    -h | --help) usage && exit 0 ;;
    --*)
      [ $# -ge 2 ] || refuse "$1 needs a value, or is no option"
      case $1 in
        --train-1k) train_1k=$2 ;;
        --train-1k-labels) train_1k_labels=$2 ;;
        --classes-1k) classes_1k=$2 ;;
        --train-21k) train_21k=$2 ;;
        --train-21k-labels) train_21k_labels=$2 ;;
        --classes-21k) classes_21k=$2 ;;
        --val) val=$2 ;;
        --val-labels) val_labels=$2 ;;
        --val-classes) val_classes=$2 ;;
        --val-ids) val_ids=$2 ;;
        --clean) clean=$2 ;;
        --real) real=$2 ;;
        --hierarchy) hierarchy=$2 ;;
        --names) names=$2 ;;
        --text-synset) text_synset=$2 ;;
        --text-synset7) text_synset7=$2 ;;
        --text-mod7) text_mod7=$2 ;;
        --text-classes) text_classes=$2 ;;
        --per-class) per_class=$2 ;;
        --lambdas-text) lambdas_text=$2 ;;
        --only) only="$only $2" ;;
        --lambda-1k) lambda_1k=$2 ;;
        --lambda-21k) lambda_21k=$2 ;;
        --euclid-lambda-1k) euclid_1k=$2 ;;
        --euclid-lambda-21k) euclid_21k=$2 ;;
        --lambdas-1k) lambdas_1k=$2 ;;
        --lambdas-21k) lambdas_21k=$2 ;;
        --euclid-lambdas) euclid_lambdas=$2 ;;
        --dims) dims=$2 ;;
        --knn-between) knn_between=$2 ;;
        --repeat) repeat=$2 ;;
        --out) out=$2 ;;
        --threads) threads=$2 ;;
        --koofu) koofu=$2 ;;
        *) refuse "there is no option $1" ;;
      esac
      shift ;;
    *) refuse "'$1' is no option" ;;
  esac
  shift
done

for table in $only; do
  case " $all_tables " in *" $table "*) ;; *) refuse "there is no table '$table' (--list names them)" ;; esac
done
[ -n "$train_1k" ] || refuse "the training rows of IN-1k are missing (--train-1k)"
[ -n "$val" ] || refuse "the validation rows of IN-1k are missing (--val)"
[ -n "$out" ] || refuse "the folder for the tables is missing (--out)"
case $knn_between in 1K | 21K) ;; *) refuse "--knn-between is 1K or 21K" ;; esac
for file in "$train_1k_labels" "$train_21k_labels" "$classes_1k" "$classes_21k" "$val_labels" "$val_classes" \
  "$val_ids" "$clean" "$real" "$hierarchy" "$names" "$text_classes"; do
  case $file in '' | *[*?[]*) continue ;; esac # patterns are koofu's
  [ -f "$file" ] || fail "there is no file $file"
done
for data in "$train_1k" "$train_21k" "$val" "$text_synset" "$text_synset7" "$text_mod7"; do
  case $data in '' | *[*?[]*) continue ;; esac
  [ -e "$data" ] || fail "there is no file or folder $data"
done

if [ -z "$koofu" ]; then
  koofu=$here/../build/koofu
  [ -x "$koofu" ] || koofu=$(command -v koofu) || fail "koofu is neither in build nor in PATH: make, or give --koofu"
fi
python=$(command -v python3) || fail "python3 is not installed"
[ "$("$koofu" version -q 2> /dev/null | wc -l)" -gt 0 ] || fail "$koofu does not run"

# The paper's values, and the same relative to the mean eigenvalue of S_w, trace(S_w) / 768: with
# trace(S_w) / N about 0.3 that is 500 for IN-1k and 5,140 for IN-21k, times 18.3^2 for the lengths
# that CLIP's rows have.
if [ -n "$relative" ]; then
  : "${lambda_1k:=0.3x}" "${lambda_21k:=0.3x}" "${euclid_1k:=0.3x}" "${euclid_21k:=0.06x}"
  : "${lambdas_1k:=0.06x,0.1x,0.2x,0.3x,0.4x,0.5x,1x,2x,10x,20x}"
  : "${lambdas_21k:=0.05x,0.1x,0.15x,0.2x,0.3x,0.4x,0.5x,0.6x,1x,2x}"
  : "${lambdas_text:=0.1x,0.3x,2x,6x,10x,20x,200x}"
  : "${euclid_lambdas:=0.06x,0.15x,0.3x,0.45x,0.6x,0.9x,1.2x}"
else
  : "${lambda_1k:=150}" "${lambda_21k:=1500}" "${euclid_1k:=50000}" "${euclid_21k:=100000}"
  : "${lambdas_1k:=30,50,100,150,200,250,500,1000,5000,10000}"
  : "${lambdas_21k:=250,500,750,1000,1500,2000,2500,3000,5000,10000}"
  : "${lambdas_text:=50,150,1000,3000,5000,10000,100000}"
  : "${euclid_lambdas:=10000,25000,50000,75000,100000,150000,200000}"
fi
some() { # LIST: three of it, from the beginning, the middle and the end
  echo "$1" | awk -F, '{ printf "%s,%s,%s\n", $2, $(int((NF + 1) / 2)), $(NF - 1) }'
}
many_k=1,5,9,10,11,13,15,16,17,19,32,64
if [ -n "$quick" ]; then
  lambdas_1k=$(some "$lambdas_1k") lambdas_21k=$(some "$lambdas_21k") euclid_lambdas=$(some "$euclid_lambdas")
  lambdas_text=$(some "$lambdas_text")
  many_k=1,5,10,15,32
fi
: "${repeat:=$([ -n "$quick" ] && echo 1 || echo 3)}"

[ -z "$val_labels" ] || : "${val_classes:=$classes_1k}"
truths='val'
[ -z "$clean" ] || truths="clean $truths"
[ -z "$real" ] || truths="$truths real"
texts=''
[ -z "$text_synset" ] || texts="$texts synset"
[ -z "$text_synset7" ] || texts="$texts synset7"
[ -z "$text_mod7" ] || texts="$texts mod7"
: "${text_classes:=$classes_1k}"
spaces='raw 1K' sets=1K
if [ -n "$train_21k" ]; then
  spaces="$spaces 21K"
  [ -z "$hierarchy" ] || sets="$sets 14K"
  sets="$sets 21K"
else
  knn_between=1K
fi

# --- the folder -----------------------------------------------------------------------------------

work=$out/work
mkdir -p "$work"

# Measurements under other settings must not get into one folder.
settings() {
  printf '%s\t%s\n' train_1k "$train_1k" train_1k_labels "$train_1k_labels" classes_1k "$classes_1k" \
    train_21k "$train_21k" train_21k_labels "$train_21k_labels" classes_21k "$classes_21k" \
    val "$val" val_labels "$val_labels" val_classes "$val_classes" val_ids "$val_ids" clean "$clean" real "$real" \
    hierarchy "$hierarchy" names "$names" lambda_1k "$lambda_1k" lambda_21k "$lambda_21k" \
    euclid_1k "$euclid_1k" euclid_21k "$euclid_21k" lambdas_1k "$lambdas_1k" lambdas_21k "$lambdas_21k" \
    euclid_lambdas "$euclid_lambdas" dims "$dims" many_k "$many_k" knn_between "$knn_between" \
    repeat "$repeat" quick "$quick" truths "$truths" spaces "$spaces" sets "$sets" \
    koofu "$("$koofu" version | head -n 1)"
  [ -z "$texts" ] || printf '%s\t%s\n' texts "$texts" text_synset "$text_synset" text_synset7 "$text_synset7" \
    text_mod7 "$text_mod7" text_classes "$text_classes" per_class "$per_class" lambdas_text "$lambdas_text"
}
settings > "$work/settings.part"
# Text may come later, or be another, as long as nothing was measured with it.
without_text() { sed -e '/^text/d' -e '/^per_class/d' -e '/^lambdas_text/d' "$work/$1"; }
free_of_text() {
  for file in "$work"/zeroshot* "$out"/zeroshot*; do [ ! -e "$file" ] || return 1; done
  [ "$(without_text settings.part)" = "$(without_text settings.txt)" ] || return 1
  rm -f "$work"/text-*.safetensors
}
# A run that stopped before anything was measured blocks no other settings: what they do not touch stays.
measured() {
  for file in "$work"/*-*.csv "$work"/knn-*.json "$work"/dims-knn-*.json "$work"/efficiency-*.json "$out"/*.csv; do
    [ ! -e "$file" ] || return 0
  done
  return 1
}
same() { # KEYS: whether these settings are those of the earlier run
  [ "$(grep -E "^($1)	" "$work/settings.part")" = "$(grep -E "^($1)	" "$work/settings.txt")" ]
}
start_again() {
  say 'nothing was measured under the earlier settings; these take their place'
  for file in "$work"/*; do
    case ${file##*/} in
      settings.*) continue ;;
      1k.safetensors) ! same 'koofu|train_1k|train_1k_labels|classes_1k' || continue ;;
      21k.safetensors) ! same 'koofu|train_21k|train_21k_labels|classes_21k' || continue ;;
      val.safetensors) ! same 'koofu|val|val_labels|val_classes' || continue ;;
    esac
    rm -f "$file"
  done
}
if [ -f "$work/settings.txt" ] && [ -n "$force" ]; then
  cmp -s "$work/settings.part" "$work/settings.txt" ||
    for table in $all_tables; do rm -f "$out/$table.md" "$out/$table.csv"; done
  mv "$work/settings.part" "$out/settings.part"
  rm -rf "$work"
  mkdir "$work"
  mv "$out/settings.part" "$work/settings.part"
elif [ -f "$work/settings.txt" ] && ! cmp -s "$work/settings.part" "$work/settings.txt" && ! measured; then
  start_again
elif [ -f "$work/settings.txt" ] && ! cmp -s "$work/settings.part" "$work/settings.txt" && ! free_of_text; then
  diff "$work/settings.txt" "$work/settings.part" | sed -n 's/^[<>]/ &/p' >&2 || true
  rm -f "$work/settings.part"
  fail "$out has results under other settings (< those, > these): take another folder, or --force"
fi
mv "$work/settings.part" "$work/settings.txt"

cleanup() { rm -f "$work"/gallery*.safetensors "$work"/rows-*.safetensors "$work"/*.part; }
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- commands -------------------------------------------------------------------------------------

run() { # COMMAND...: koofu, quietly unless somebody looks on
  [ -z "$threads" ] || set -- "$@" --threads "$threads"
  [ -t 2 ] || set -- "$@" -q
  "$koofu" "$@"
}

# A file is made by koofu itself (-o) or from what it prints; either way it is there as a whole or
# not at all.
missing() { [ ! -e "$work/$1" ]; }
file() { # NAME COMMAND...: work/NAME, by -o
  name=$1 && shift
  missing "$name" || return 0
  run "$@" -o "$work/$name"
}
printed() { # NAME COMMAND...: what a command prints
  name=$1 && shift
  missing "$name" || return 0
  "$@" > "$work/$name.part"
  mv "$work/$name.part" "$work/$name"
}

with_1k() { # COMMAND...: with the rows of IN-1k behind
  set -- "$@" "$train_1k"
  [ -z "$train_1k_labels" ] || set -- "$@" --labels "$train_1k_labels"
  [ -z "$classes_1k" ] || set -- "$@" --classes "$classes_1k"
  "$@"
}
with_21k() {
  set -- "$@" "$train_21k"
  [ -z "$train_21k_labels" ] || set -- "$@" --labels "$train_21k_labels"
  [ -z "$classes_21k" ] || set -- "$@" --classes "$classes_21k"
  "$@"
}
judged() { # TRUTH COMMAND...
  truth=$1 && shift
  case $truth in
    clean) set -- "$@" --truth "$clean" ;;
    real) set -- "$@" --truth "$real" ;;
  esac
  [ "$truth" = val ] || set -- "$@" --truth-classes "$work/truth.txt"
  [ "$truth" = val ] || set -- "$@" --ids "$work/ids.txt"
  "$@"
}
info() { # FILE KEY
  "$koofu" info --json "$work/$1" | "$python" -c "import json, sys; print(json.load(sys.stdin)['$2'])"
}
names_in() { # FILE: names of the classes of a data set, one per line
  "$koofu" info --json "$work/$1" |
    "$python" -c "import json, sys; [print(n) for n in json.loads(json.load(sys.stdin)['metadata'].get('classes', '[]'))]"
}

# --- statistics, class sets -----------------------------------------------------------------------

prepare() {
  say "statistics of IN-1k"
  with_1k file 1k.safetensors stats
  printed 1k.txt "$python" "$here/tables.py" classes "$work/1k.safetensors"
  printed truth.txt "$python" "$here/tables.py" classes --all "$work/1k.safetensors"
  dim=$(info 1k.safetensors dim)
  [ "$(info 1k.safetensors rows)" -eq 1281167 ] || [ "$lambda_1k" != 150 ] ||
    say "note: lambda 150 is meant for the 1,281,167 rows of IN-1k; --relative fits any number"
  say "validation rows"
  set -- val.safetensors convert "$val"
  [ -z "$val_labels" ] || set -- "$@" --labels "$val_labels"
  [ -z "$val_classes" ] || set -- "$@" --classes "$val_classes"
  file "$@"
  if [ -n "$val_ids" ]; then
    printed ids.txt cat "$val_ids"
  else
    [ "$truths" = val ] || [ "$(info val.safetensors rows)" -eq 50000 ] ||
      fail "there are not 50,000 validation rows: --clean and --real need --val-ids to tell which is which"
    printed ids.txt awk -v n="$(info val.safetensors rows)" 'BEGIN { for (i = 1; i <= n; i++) printf "ILSVRC2012_val_%08d\n", i }'
  fi
  [ -z "$train_21k" ] || prepare_21k
  : "${dims:=$("$python" "$here/tables.py" dims "$dim" ${quick:+quick})}"
  printed dims.txt echo "$dims"
}

# Classes of 1K that 21K lacks take part in 14K and 21K by their rows in IN-1k: their statistics are
# merged into those of 21K, whose S_w stays that of IN-21k alone.
lacking_classes() { grep -Fvx -f "$work/21k.txt" "$work/1k.txt" || true; }
prepare_21k() {
  say "statistics of IN-21k"
  with_21k file 21k.safetensors stats
  printed 21k.txt "$python" "$here/tables.py" classes "$work/21k.safetensors"
  printed only.txt lacking_classes
  printed 21K.set cat "$work/21k.txt" "$work/only.txt"
  printed 1K.set cat "$work/1k.txt"
  whole_21k 21k-all.safetensors 21k.safetensors
  if [ -n "$hierarchy" ]; then
    set -- --hierarchy "$hierarchy" --set "$work/1k.txt" --all "$work/21k.txt"
    [ -z "$names" ] || set -- "$@" --names "$names"
    printed groups.json run classes --json "$@"
    missing groups-exclusive.txt && run classes "$@" -o "$work/groups" > /dev/null
    printed 14K.set cat "$work/groups-exclusive.txt"
  fi
}

whole_21k() { # NAME STATISTICS [OPTION...]: those of IN-21k with the classes that it lacks
  name=$1 part=$2 && shift 2
  missing "$name" || return 0
  if [ -s "$work/only.txt" ]; then
    whole=$name
    with_1k file "only-$part" stats --only "$work/only.txt" "$@"
    run merge "$work/$part" "$work/only-$part" -o "$work/$whole"
  else
    cp "$work/$part" "$work/$name.part" && mv "$work/$name.part" "$work/$name"
  fi
}

# --- nearest prototypes ---------------------------------------------------------------------------

# Prototypes of the set 1K are means of IN-1k, those of 14K and 21K means of IN-21k (and of the
# classes that it lacks). S_w is that of the space.
grid() { # TABLE W1 W21 B21 LAMBDA1 LAMBDA21: raw, 1K, 21K x 1K, 14K, 21K
  table=$1 w1=$2 w21=$3 b21=$4 l1=$5 l21=$6
  for truth in $truths; do
    set -- --test "$work/val.safetensors" --dims "$dim" --format csv
    say "$table: $truth, classes of 1K"
    printed "$table-1K-1K-$truth.csv" judged "$truth" run sweep --method paper "$work/$w1" --lambdas "$l1" "$@"
    [ -n "$train_21k" ] || continue
    printed "$table-21K-1K-$truth.csv" judged "$truth" run sweep --method paper "$work/$w21" --between "$work/$w1" \
      --lambdas "$l21" --no-raw "$@"
    for set in $sets; do [ "$set" = 1K ] || set -- "$@" --class-set "$work/$set.set"; done
    say "$table: $truth, classes of 14K and 21K"
    printed "$table-1K-more-$truth.csv" judged "$truth" run sweep --method paper "$work/$w1" --between "$work/$b21" \
      --lambdas "$l1" "$@"
    printed "$table-21K-more-$truth.csv" judged "$truth" run sweep --method paper "$work/$w21" --between "$work/$b21" \
      --lambdas "$l21" --no-raw "$@"
  done
}

sweep_1k() { # TABLE STATISTICS LAMBDAS DIMS [OPTION...]: IN-1k alone
  table=$1 statistics=$2 lambdas=$3 those=$4 && shift 4
  for truth in $truths; do
    say "$table: $truth"
    printed "$table-$truth.csv" judged "$truth" run sweep --method paper "$work/$statistics" \
      --test "$work/val.safetensors" --lambdas "$lambdas" --dims "$those" --format csv "$@"
  done
}

# --- text -----------------------------------------------------------------------------------------

# Names inside tell the class of each row; --classes would take the place of these names.
prototypes() { # NAME DATA [M]: work/text-NAME.safetensors
  missing "text-$1.safetensors" || return 0
  say "text prototypes: $1"
  text=$1 count=${3:-}
  file "rows-$text.safetensors" convert "$2"
  set -- "text-$text.safetensors" text-prototypes "$work/rows-$text.safetensors"
  if [ -z "$(names_in "rows-$text.safetensors")" ]; then
    [ -n "$text_classes" ] || fail "the text embeddings of $text have no classes inside: --text-classes must name them"
    set -- "$@" --classes "$text_classes"
    [ -z "$count" ] || set -- "$@" --per-class "$count"
  fi
  file "$@"
  rm -f "$work/rows-$text.safetensors"
}

# Text is about the classes of 1K: rows of a class without text would be left out, and text of other
# classes would have a share in the mean on which text is centred.
fail_text() { # the file may be put right under the same name
  rm -f "$work/text-$text.safetensors"
  fail "the text of $text $*"
}
prepare_text() {
  [ -z "$text_synset" ] || prototypes synset "$text_synset"
  [ -z "$text_synset7" ] || prototypes synset7 "$text_synset7" "$per_class"
  [ -z "$text_mod7" ] || prototypes mod7 "$text_mod7" "$per_class"
  for text in $texts; do
    names_in "text-$text.safetensors" > "$work/text.part"
    first=$(grep -Fvx -f "$work/text.part" "$work/1k.txt" | head -n 1)
    [ -z "$first" ] || fail_text "lacks classes of IN-1k, $first first"
    first=$(grep -Fvx -f "$work/truth.txt" "$work/text.part" | head -n 1)
    [ -z "$first" ] || fail_text "has classes that are not in IN-1k, $first first"
  done
  rm -f "$work/text.part"
}

zero_shot() { # TABLE LAMBDAS DIMS: every way of prompting, every truth, with and without centring
  prepare_text
  for text in $texts; do
    for truth in $truths; do
      say "$1: $text, $truth"
      for centring in none modality; do
        printed "$1-$text-$centring-$truth.csv" judged "$truth" run sweep --method paper "$work/1k.safetensors" \
          --test "$work/val.safetensors" --text "$work/text-$text.safetensors" --text-centre "$centring" \
          --no-prototypes --class-set "$work/1k.txt" --lambdas "$2" --dims "$3" --format csv
      done
    done
  done
}

# Rows with their own lengths. Statistics that are merged need one unit.
prepare_euclid() {
  if missing euclid-1k.safetensors; then say "statistics of rows with their own lengths"; fi
  with_1k file euclid-1k.safetensors stats --no-normalize
}
prepare_euclid_21k() {
  [ -n "$train_21k" ] || return 0
  with_21k file euclid-21k.safetensors stats --no-normalize
  whole_21k euclid-21k-all.safetensors euclid-21k.safetensors --no-normalize \
    --exponent "$(info euclid-21k.safetensors exponent)"
}

# --- neighbours -----------------------------------------------------------------------------------

models() { # of the full spaces; all dimensions, so that S_b does not matter
  file model-1K.safetensors fit --method paper "$work/1k.safetensors" --lambda "$lambda_1k"
  [ -z "$train_21k" ] || file model-21K.safetensors fit --method paper "$work/21k.safetensors" --lambda "$lambda_21k"
}

gallery() { # SPACE SET: work/gallery.safetensors
  space=$1 set=$2
  rm -f "$work"/gallery*.safetensors
  set -- index -o "$work/gallery.safetensors"
  [ "$space" = raw ] || set -- "$@" --model "$work/model-$space.safetensors"
  if [ "$set" = 1K ]; then
    with_1k run "$@"
  else
    with_21k run "$@" --only "$work/$set.set"
    [ ! -s "$work/only.txt" ] ||
      with_1k run index --only "$work/only.txt" --append "$work/gallery.safetensors"
  fi
}

votes() { # NAME MODEL K: of the rows in work/gallery.safetensors, by every truth
  stem=$1 model=$2 neighbours=$3
  for truth in $truths; do
    printed "$stem-$truth.json" judged "$truth" run eval "$work/$model" "$work/val.safetensors" \
      --gallery "$work/gallery.safetensors" -k "$neighbours" --json
  done
}

all_there() { # STEM: whether every truth has its measurement
  for truth in $truths; do missing "$1-$truth.json" && return 1; done
  return 0
}

neighbours() { # 'SET...'
  models
  rows=$(info 1k.safetensors rows)
  for set in $1; do
    list=1,10,15
    [ "$set" != 1K ] || list=$(echo "$many_k" | awk -v RS=, -v n="$rows" '$1 + 0 <= n + 0 { printf "%s%d", c, $1; c = "," }')
    for space in $spaces; do
      all_there "knn-$space-$set" && continue
      say "k-NN: space $space, classes of $set"
      gallery "$space" "$set"
      model=model-$space.safetensors
      [ "$space" != raw ] || model="model-1K.safetensors"
      votes "knn-$space-$set" "$model" "$list"
    done
  done
  rm -f "$work"/gallery*.safetensors
}

timed() { # STEM: whether searches were timed
  for i in $(seq "$repeat"); do missing "efficiency-$1-$i.json" && return 1; done
  return 0
}

time_searches() { # STEM
  for i in $(seq "$repeat"); do
    printed "efficiency-$1-$i.json" run search "$work/gallery.safetensors" "$work/val.safetensors" -k 15 --json
  done
}

# Spaces of IN-1k with fewer dimensions; the raw one first. Times are those of a machine that does
# nothing else.
reduced_neighbours() { # [time]
  models
  between=1k.safetensors
  [ "$knn_between" = 1K ] || between=21k-all.safetensors
  for d in raw $(echo "$dims" | tr , ' '); do
    if all_there "dims-knn-$d" && { [ $# -eq 0 ] || timed "$d"; }; then continue; fi
    if [ "$d" = raw ]; then say "k-NN: raw space"; else say "k-NN: $d dimensions"; fi
    model="model-1K.safetensors"
    rm -f "$work"/gallery*.safetensors
    if [ "$d" = raw ]; then
      with_1k run index -o "$work/gallery.safetensors"
    else
      model=gallery-model.safetensors
      run fit --method paper "$work/1k.safetensors" --between "$work/$between" --lambda "$lambda_1k" --dim "$d" \
        -o "$work/$model"
      with_1k run index --model "$work/$model" -o "$work/gallery.safetensors"
    fi
    votes "dims-knn-$d" "$model" 1,10,15
    [ $# -eq 0 ] || time_searches "$d"
  done
  rm -f "$work"/gallery*.safetensors
}

# --- tables ---------------------------------------------------------------------------------------

can_make() { # TABLE: whether it can be made of what was given, and what lacks
  [ "$1" != synsets ] || [ -n "$hierarchy" ] || { echo '--hierarchy' && return 1; }
  case $1 in zeroshot*) [ -n "$texts" ] || { echo '--text-synset, --text-synset7 or --text-mod7' && return 1; } ;; esac
  case $1 in synsets | lambda-21k) [ -n "$train_21k" ] || { echo '--train-21k' && return 1; } ;; esac
}

there() { [ -z "$force" ] && [ -f "$out/$1.md" ] && [ -f "$out/$1.csv" ]; }
wanted() { # TABLE: whether it will be made; a gallery that is there can be timed at once
  case " ${only:-$all_tables} " in *" $1 "*) ! there "$1" ;; *) return 1 ;; esac
}

measure() { # TABLE
  case $1 in
    synsets) ;;
    nvp) grid nvp 1k.safetensors 21k.safetensors 21k-all.safetensors "$lambda_1k" "$lambda_21k" ;;
    knn) neighbours "$([ -n "$quick" ] && echo 1K || echo "$sets")" ;;
    k) neighbours 1K ;;
    dims-nvp) sweep_1k dims-nvp 1k.safetensors "$lambda_1k" "$dims" ;;
    dims-knn) if wanted efficiency; then reduced_neighbours time; else reduced_neighbours; fi ;;
    efficiency) reduced_neighbours time ;;
    lambda-1k) sweep_1k lambda-1k 1k.safetensors "$lambdas_1k" "$dim" ;;
    lambda-21k) sweep_1k lambda-21k 21k.safetensors "$lambdas_21k" "$dim" --between "$work/1k.safetensors" ;;
    zeroshot) zero_shot zeroshot "$lambdas_text" "$dim" ;;
    zeroshot-dims) zero_shot zeroshot-dims "$lambda_1k" "$dims" ;;
    euclid-*)
      prepare_euclid
      measure_euclid "$1" ;;
  esac
}

measure_euclid() {
  case $1 in
    euclid-nvp)
      prepare_euclid_21k
      grid euclid-nvp euclid-1k.safetensors euclid-21k.safetensors euclid-21k-all.safetensors "$euclid_1k" "$euclid_21k" ;;
    euclid-dims) sweep_1k euclid-dims euclid-1k.safetensors "$euclid_1k" "$dims" ;;
    euclid-lambda) sweep_1k euclid-lambda euclid-1k.safetensors "$euclid_lambdas" "$dim" ;;
  esac
}

prepared=
for table in ${only:-$all_tables}; do
  if there "$table"; then
    say "$table: is there"
    continue
  fi
  if ! lacking=$(can_make "$table"); then
    [ -z "$only" ] || refuse "the table $table needs $lacking"
    say "$table: left out, needs $lacking"
    continue
  fi
  [ -n "$prepared" ] || prepare
  prepared=1
  say "$table"
  measure "$table"
  "$python" "$here/tables.py" table "$out" "$table" ${beside:+--beside-paper}
done
"$python" "$here/tables.py" summary "$out"
say "$out/tables.md"
