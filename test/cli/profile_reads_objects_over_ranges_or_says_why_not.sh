# SPDX-License-Identifier: Apache-2.0
# Files on an S3 server (a stand-in that checks signatures by its own code) give the profile of the same files on disk, through
# storms of 503, bodies cut short, servers that ignore ranges, and pages of lists. Wrong keys and names get a sentence, and no
# secret is in what is printed or written.
command -v python3 > /dev/null || { echo "python3 is not installed"; exit 77; }
PATH=$PATH:/sbin ldconfig -p | grep -q 'libcurl[a-z-]*.so.4' || { echo "libcurl4 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'exec 9>&-; rm -rf "$work"' EXIT
mkdir -p "$work/files/data/a b/c=1" "$work/files/data/split" "$work/files/public" "$work/home"
export HOME="$work/home" AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_DEFAULT_REGION
for part in 1 2 3 4 5; do sed -n "$part~5p" data/example.jsonl > "$work/files/data/a b/c=1/part-$part & é.jsonl"; done
cp data/example.jsonl "$work/files/data/split/train.jsonl"
head -n 9 data/example.jsonl > "$work/files/data/split/test.jsonl"
python3 -c 'import bz2, gzip, lzma, sys
for name, kind in (("gz", gzip), ("bz2", bz2), ("xz", lzma)):
    open(sys.argv[2] + name, "wb").write(kind.compress(open(sys.argv[1], "rb").read()))' "$work/files/data/split/train.jsonl" "$work/files/data/train.jsonl."
cp test/data/rows.parquet "$work/files/data/rows.parquet"
cp test/data/rows.arrow "$work/files/data/rows.arrow"
cp data/example.jsonl "$work/files/public/private.jsonl"
mkfifo "$work/end" "$work/port"
python3 test/stand_ins/object_store.py "$work/files" 100 < "$work/end" > "$work/port" &
exec 9> "$work/end"
read -r port < "$work/port"
at=http://127.0.0.1:$port
export AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret/Key+OfTheTest/0123456789abcdefghij AWS_REGION=eu-west-1 AWS_ENDPOINT_URL_S3=$at AWS_MAX_ATTEMPTS=4
profile() { "$GPUHOURS" profile "$@" --tokenizer test/data/small_tokenizer.json --template plain --bad-rows skip --lengths "$work/lengths" --out "$work/profile.json" > "$work/text" 2> "$work/errors"; }
same() { # NAME FILE ADDRESS...
    name=$1 file=$2; shift 2
    rm -f "$work/wanted" "$work/lengths"
    profile "$file" && mv "$work/lengths" "$work/wanted"
    profile "$@" && cmp "$work/lengths" "$work/wanted" && echo "$name: the same lengths" || { echo "$name:"; cat "$work/errors"; }
    cat "$work/text" "$work/errors" "$work/profile.json" >> "$work/said"
}
train="$work/files/data/split/train.jsonl"
same "an object" "$train" s3://data/split/train.jsonl
for ending in gz bz2 xz; do same "packed as .$ending" "$train" s3://data/train.jsonl.$ending; done
same "a prefix, without its test split" "$work/files/data/split" s3://data/split
same "keys with spaces, = and &" "$work/files/data/a b" "s3://data/a b/"
same "a pattern" "$work/files/data/a b/c=1/part-[24] & é.jsonl" "s3://data/a b/c=1/part-[24]*"
same "a pattern through folders" "$work/files/data/a b/c=1/part-[24] & é.jsonl" "s3://data/**/part-[24]*"
same "Parquet" "$work/files/data/rows.parquet" s3://data/rows.parquet
same "Arrow" "$work/files/data/rows.arrow" s3://data/rows.arrow
AWS_ENDPOINT_URL_S3=$at/pages same "a list of several pages" "$work/files/data/a b" "s3://data/a b"
AWS_ENDPOINT_URL_S3=$at/storm same "two of three answers are 503" "$train" s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=$at/cut same "bodies cut short" "$train" s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=$at/cut same "Parquet with bodies cut short" "$work/files/data/rows.parquet" s3://data/rows.parquet
AWS_ENDPOINT_URL_S3=$at/whole same "a server that ignores ranges" "$train" s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=$at/mute same "and says no length" "$train" s3://data/split/train.jsonl
STORAGE_EMULATOR_HOST=$at same "gs://" "$train" gs://data/split/train.jsonl
AWS_SESSION_TOKEN=session-token-of-the-test same "with a session token" "$train" s3://data/split/train.jsonl
same "the web, redirected" "$train" "$at/moved/data/split/train.jsonl"
same "a link with a key" "$work/files/public/private.jsonl" "$at/web/public/private.jsonl?key=KEY-OF-A-LINK"
mkdir -p "$HOME/.aws" "$HOME/.cache/huggingface/hub/datasets--org--name/snapshots/abc/data" "$HOME/.cache/huggingface/hub/datasets--org--name/refs"
printf '[work]\naws_access_key_id = AKIDTEST\naws_secret_access_key = %s\n' "$AWS_SECRET_ACCESS_KEY" > "$HOME/.aws/credentials"
(unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; AWS_PROFILE=work same "keys of a profile" "$train" s3://data/split/train.jsonl)
printf abc > "$HOME/.cache/huggingface/hub/datasets--org--name/refs/main"
cp "$train" "$HOME/.cache/huggingface/hub/datasets--org--name/snapshots/abc/data/train-00000.jsonl"
same "the hub's cache" "$train" hf://datasets/org/name/data
counted() { "$GPUHOURS" profile s3://data/split/train.jsonl "s3://data/a b" s3://data/rows.parquet --tokenizer test/data/small_tokenizer.json --template plain --bad-rows skip "$@" > "$work/text" 2>&1 || cat "$work/text"; }
counted --out "$work/one.json"
counted --units "$work/units" --unit-size 20011 --out "$work/units.json"
cmp "$work/one.json" "$work/units.json" && echo "work units of objects: the same profile"
echo
refused() { profile "$@"; echo "$? $(sed "s|$at|AT|g; s|$work|DIR|g" "$work/errors")"; cat "$work/text" "$work/errors" >> "$work/said"; }
refused s3://data/absent.jsonl
refused s3://absent/x.jsonl
refused "s3://data/absent-*.jsonl"
AWS_ENDPOINT_URL_S3=$at/listless refused "s3://data/split/*.jsonl"
AWS_ENDPOINT_URL_S3=$at/listless refused s3://data/absent.jsonl
AWS_SECRET_ACCESS_KEY=another-secret refused s3://data/split/train.jsonl
AWS_ACCESS_KEY_ID=OTHER refused s3://data/split/train.jsonl
AWS_SESSION_TOKEN=another-secret refused s3://data/split/train.jsonl
(unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; refused s3://data/split/train.jsonl; AWS_PROFILE=absent refused s3://data/split/train.jsonl)
(unset AWS_SECRET_ACCESS_KEY; refused s3://data/split/train.jsonl)
AWS_ENDPOINT_URL_S3=$at/down AWS_MAX_ATTEMPTS=2 refused s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=$at/changing refused s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=$at/elsewhere refused s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=$at/whole refused s3://data/rows.parquet
AWS_ENDPOINT_URL_S3=127.0.0.1 refused s3://data/split/train.jsonl
AWS_ENDPOINT_URL_S3=http://127.0.0.1:1 AWS_MAX_ATTEMPTS=1 refused s3://data/split/train.jsonl
refused "$at/web/public/private.jsonl?key=another-secret"
refused "http://user:another-secret@127.0.0.1:$port/x.jsonl"
printf '<!doctype html><html><body>Log in to see the file.</body></html>\n' > "$work/files/public/page"
for name in page.jsonl page.parquet page.txt; do cp "$work/files/public/page" "$work/files/public/$name"; done
for name in page page.jsonl page.parquet page.txt; do refused "$at/web/public/$name"; done
refused s3://public/page.jsonl
refused r2://bucket/key
refused hf://datasets/org/absent
# Not below the sanitizers, which have to be loaded first.
if [ -n "$FAULTS" ]; then (export LD_PRELOAD="$STAND_INS/no_curl.so"; refused s3://data/split/train.jsonl); else echo "4 gpuhours: addresses are read with libcurl, which is not installed; on Debian: apt-get install libcurl4"; fi
grep -c -e 'secret/Key' -e another-secret -e KEY-OF-A-LINK -e session-token-of "$work/said"
# Memory: the parts that are read ahead (64 MiB) beside what the same file takes from a disk (not below the sanitizers, and so of
# a tenth of the rows there). Keys: no core dump has them.
awk -v rows="${FAULTS:+30000}" 'BEGIN { if (!rows) rows = 3000; line = "{\"text\":\""; while (length(line) < 4000) line = line "some words of a text "; for (i = 0; i < rows; i++) print line "\"}" }' > "$work/files/data/large.jsonl"
cat > "$work/measure.py" <<'TEXT'
import os, resource, signal, subprocess, sys, time
program, folder, out = sys.argv[1:]
def peak(word):
    child = subprocess.Popen([program, "profile", word, "--out", out], stdout=subprocess.DEVNULL)
    return os.wait4(child.pid, 0)[2].ru_maxrss / 1024
disk, store = peak(folder + "/data/large.jsonl"), peak("s3://data/large.jsonl")
print("memory over that of a disk: at most 64 MiB and a little" if store < disk + 80 or not os.environ.get("FAULTS") else f"memory: {disk} MiB, {store} MiB")
os.environ["AWS_ENDPOINT_URL_S3"] += "/down"
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
child = subprocess.Popen([program, "profile", "s3://data/large.jsonl"], cwd=os.path.dirname(out), stderr=subprocess.DEVNULL)
time.sleep(0.3)
child.send_signal(signal.SIGABRT)
status = os.waitpid(child.pid, 0)[1]
print("killed with keys in memory:", "core dumped" if os.WCOREDUMP(status) else "no core dump", os.WIFSIGNALED(status))
TEXT
AWS_MAX_ATTEMPTS=8 python3 "$work/measure.py" "$(realpath "$GPUHOURS")" "$work/files" "$work/profile.json"
