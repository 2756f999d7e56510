# SPDX-License-Identifier: Apache-2.0
# Real shells complete four lines from the generated scripts, and agree with the program's own lists.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$MANUAL" share "$work" 2026-01-31 || exit 1
bash_script=$work/bash-completion/completions/gpuhours
fish_script=$work/fish/vendor_completions.d/gpuhours.fish

ask_bash() {
    bash --norc -c '. "$1"; read -ra COMP_WORDS <<<"$2"; [[ $2 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gpuhours; printf "%s\n" "${COMPREPLY[@]}"' bash "$bash_script" "$1"
}
ask_fish() {
    HOME=$work fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$fish_script" "$1" | cut -f1
}
# zsh completes only in an interactive shell: it runs on a pseudo-terminal, and compadd tells the matches.
ask_zsh() {
    cat >"$work/ask.zsh" <<'ZSH'
zmodload zsh/zpty
zpty inner zsh -f -i
answer() { local line; REPLY=; while zpty -r inner line; do REPLY+=$line; [[ $line == *$1* ]] && return; done }
zpty -w inner "PROMPT= PS2=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w inner 'stop() { print -r -- "<""end>"; exit }; comppostfuncs=(stop)'
zpty -w inner 'compadd() { [[ " ${(pj: :)@[1,(i)(-|--)]}" == *" -"[OAD]\ * ]] && { builtin compadd "$@"; return }
    local -a hits; builtin compadd -A hits "$@"; local hit; for hit in $hits; do print -r -- "<hit>$hit"; done
    builtin compadd "$@" }; bindkey "^I" complete-word; print "<rea""dy>"'
answer '<ready>'
zpty -n -w inner "$2"$'\t'
answer '<end>'
print -r -- $REPLY
ZSH
    HOME=$work timeout 60 zsh -f "$work/ask.zsh" "$work/zsh/site-functions" "$1" | tr -d '\r' | grep -o '<hit>.*' |
        sed 's/<hit>//'
}

"$GPUHOURS" show gpus | awk '/^h1/ { print $1 }' | sort >"$work/gpus"
mkdir "$work/empty"
cd "$work/empty" || exit 1 # where there is no file to complete
missing=
for shell in bash zsh fish; do
    command -v $shell >/dev/null || { missing="$missing $shell"; continue; }
    for line in 'gpuhours pl' 'gpuhours plan --me' 'gpuhours plan --method ' 'gpuhours help me'; do
        echo "$shell: $line: $(ask_$shell "$line" | sort -u | tr '\n' ' ')"
    done
    ask_$shell 'gpuhours plan --gpu h1' | sort -u | diff - "$work/gpus" && echo "$shell: --gpu h1: as show gpus lists them"
done
[ -z "$missing" ] || { echo "not here:$missing"; exit 77; }
