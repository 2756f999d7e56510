#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# radosgw.sh PORT COMMAND...: runs COMMAND beside Ceph's object store on loopback, which checks signatures.
#
# One monitor, one store in memory, one gateway on PORT, of Debian's packages ceph-mon, ceph-osd and radosgw, in a temporary folder that
# goes with them. COMMAND finds a user's keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
#
#     sh bench/radosgw.sh 18080 python3 bench/object_store.py build/gpuhours 18080 WORK FILE...
set -u
port=$1
shift
work=$(mktemp -d)
daemons=
finish() {
    for pid in $daemons; do kill "$pid" 2>/dev/null; done
    for pid in $daemons; do wait "$pid" 2>/dev/null; done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
export CEPH_CONF="$work/ceph.conf"
cluster=$(cat /proc/sys/kernel/random/uuid) store=$(cat /proc/sys/kernel/random/uuid)
cat >"$CEPH_CONF" <<END
[global]
fsid = $cluster
mon host = [v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]
public addr = 127.0.0.1
keyring = $work/keyring
run dir = $work
admin socket = $work/\$name.asok
log file = $work/\$name.log
mon data = $work/mon
osd data = $work/osd
osd objectstore = memstore
memstore device bytes = 8589934592
osd pool default size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail crit = 1
rgw data = $work/rgw
END
mkdir "$work/mon" "$work/osd" "$work/rgw"
start() { "$@" >"$work/said" 2>&1 & daemons="$! $daemons"; }
{
    ceph-authtool --create-keyring "$work/keyring" --gen-key -n mon. --cap mon 'allow *' &&
    ceph-authtool "$work/keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' &&
    monmaptool --create --fsid "$cluster" --addv a "[v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]" "$work/monmap" &&
    ceph-mon --mkfs -i a --monmap "$work/monmap" --keyring "$work/keyring"
} >"$work/made" 2>&1 || { cat "$work/made"; exit 77; }
start ceph-mon -f -i a
ceph --connect-timeout 60 osd new "$store" >/dev/null || exit 77
ceph-authtool "$work/keyring" --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' >/dev/null
ceph auth add osd.0 -i "$work/keyring" >/dev/null 2>&1
ceph-osd -i 0 --mkfs --osd-uuid "$store" >"$work/made" 2>&1 || { cat "$work/made"; exit 77; }
start ceph-osd -f -i 0
start radosgw -f -n client.admin --rgw-frontends "beast endpoint=127.0.0.1:$port"
export AWS_ACCESS_KEY_ID=RADOSGW AWS_SECRET_ACCESS_KEY=RADOSGW-not-to-be-seen
timeout 300 radosgw-admin user create --uid bench --display-name bench --access-key "$AWS_ACCESS_KEY_ID" \
    --secret "$AWS_SECRET_ACCESS_KEY" >"$work/made" 2>&1 || { tail -5 "$work/made"; exit 77; }
for i in $(seq 600); do
    python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null && break
    sleep 0.1
done
"$@"
