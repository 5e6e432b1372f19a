#!/bin/sh
# Makes the certificates of the tests' API server anew. They are committed, valid for a
# hundred years and worth nothing: their keys are public.
set -eu
cd "$(dirname "$0")/../test/support/api-server/certs"
days=36500

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

# authority NAME SUBJECT
authority() {
  key "$1"
  openssl req -x509 -new -key "$1.key" -days $days -subj "$2" -out "$1.crt" \
    -addext 'basicConstraints=critical,CA:TRUE' \
    -addext 'keyUsage=critical,keyCertSign,cRLSign'
}

# signed NAME AUTHORITY SUBJECT EXTENSIONS
signed() {
  key "$1"
  printf '%s\n' 'basicConstraints=CA:FALSE' "$4" >"$1.ext"
  openssl req -new -key "$1.key" -subj "$3" |
    openssl x509 -req -CA "$2.crt" -CAkey "$2.key" -days $days -extfile "$1.ext" \
      -out "$1.crt"
  rm "$1.ext"
}

authority ca '/CN=test-ca'
signed server ca '/CN=kube-apiserver' 'extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:kubernetes.default.svc'
signed client ca '/O=system:node-proxier/CN=system:kube-proxy' 'extendedKeyUsage=clientAuth'

# An authority that is not trusted, for the tests of what is refused.
authority stranger-ca '/CN=stranger-ca'
signed stranger stranger-ca '/O=system:masters/CN=stranger' 'extendedKeyUsage=clientAuth'

rm ca.key stranger-ca.key ./*.srl 2>/dev/null || true
