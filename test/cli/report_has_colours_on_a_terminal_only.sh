# SPDX-License-Identifier: Apache-2.0
# 256 colours on a terminal that has them, none with NO_COLOR, none on others, none in a pipe.
command -v script >/dev/null || { echo "there is no script to make a terminal"; exit 77; }
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$GPUHOURS" plan --model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8 --search off --json \
    >"$folder/plan.json"
escape=$(printf '\033')
colours() {
    script -qec "$GPUHOURS report $folder/plan.json" /dev/null </dev/null | grep -c "$escape\[38;5;" |
        sed 's/^[1-9].*/colours/; s/^0$/none/'
}
unset NO_COLOR
TERM=xterm-256color colours
TERM=xterm-256color NO_COLOR=1 colours
TERM=dumb colours
TERM=xterm-256color "$GPUHOURS" report "$folder/plan.json" | grep -c "$escape" || true
