#!/usr/bin/env bash
# Makes the certificates of the TLS tests anew: an authority that the tests trust, one that nobody trusts, and one key
# for every server. They guard nothing: the key is public with this repository. Needs openssl, once a century.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

NAMES='DNS:localhost,DNS:signals.example,DNS:www.signals.example,DNS:provider.example,IP:127.0.0.1'
FROM=20200101000000Z
UNTIL=21260101000000Z

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

# issue NAME KEY AUTHORITY FROM UNTIL EXTENSIONS [OPTION...]
issue() {
  local name=$1 key=$2 ca="$work/$3" from=$4 until=$5 extensions=$6
  shift 6
  openssl req -new -key "$key" -subj "/CN=Tributary tests, $name" -out "$work/csr"
  printf '[ext]\n%b' "$extensions" >"$work/ext"
  openssl ca -batch -notext -config "$ca/cnf" -keyfile "$ca/key" -in "$work/csr" -startdate "$from" \
    -enddate "$until" -extfile "$work/ext" -extensions ext -out "$name.pem" "$@" 2>/dev/null
}

authority() {
  local ca="$work/$1"
  mkdir "$ca"
  touch "$ca/index"
  key "$ca/key"
  printf '[ca]\ndefault_ca=it\n[it]\ndatabase=%s\nnew_certs_dir=%s\npolicy=any\ndefault_md=sha256\nrand_serial=yes\nunique_subject=no\n[any]\ncommonName=supplied\n' \
    "$ca/index" "$ca" >"$ca/cnf"
  issue "$1" "$ca/key" "$1" "$FROM" "$UNTIL" \
    'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n' -selfsign
}

# server NAME AUTHORITY SUBJECT_ALT_NAMES FROM UNTIL
server() {
  issue "$1" server.key "$2" "$4" "$5" \
    "subjectAltName=$3\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n" -cert "$2.pem"
}

key server.key
authority trusted-ca
authority unknown-ca
server good trusted-ca "$NAMES" "$FROM" "$UNTIL"
server other-name trusted-ca 'DNS:other.example' "$FROM" "$UNTIL"
server expired trusted-ca "$NAMES" "$FROM" 20210101000000Z
server not-yet-valid trusted-ca "$NAMES" 21250101000000Z "$UNTIL"
server untrusted unknown-ca "$NAMES" "$FROM" "$UNTIL"
rm unknown-ca.pem
