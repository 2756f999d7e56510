# SPDX-License-Identifier: Apache-2.0
# A libduckdb.so in a folder above the program, or in one that others can write, is not opened.
unset GPUHOURS_DUCKDB
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work/home"
machine=$(uname -m)
binding=duckdb/node_modules/@duckdb/node-bindings-linux-$([ "$machine" = aarch64 ] && echo arm64 || echo x64)
mkdir -p "$work/a/b/bin" "$HOME/.local/share/gpuhours"
cp "$GPUHOURS" "$work/a/b/bin/gpuhours"
printf 'PAR1' >"$work/rows.parquet"
plant() {
    mkdir -p "$1"
    cp "${STAND_INS:-build/fast/stand_in}/nvml.so" "$1/libduckdb.so"
}
opened() { LD_DEBUG=files "$work/a/b/bin/gpuhours" profile "$work/rows.parquet" --out "$work/profile.json" 2>&1 | grep -c "file=$work.*libduckdb.so.*generating link map"; }
plant "$work/a/b/$binding"
plant "$work/a/$binding"
echo "in folders above: $(opened)"
plant "$work/a/b/bin/$binding"
chmod o+w "$work/a/b/bin/duckdb/node_modules"
plant "$HOME/.local/share/gpuhours"
chmod o+w "$HOME/.local/share/gpuhours"
echo "in folders of others: $(opened)"
chmod o-w "$work/a/b/bin/duckdb/node_modules"
echo "beside the program: $(opened)"
