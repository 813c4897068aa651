#!/bin/sh
# Writes an OCI image of one static Go binary, without Docker: a tar of an image layout (OCI image spec 1.1), as docker load, podman
# load and skopeo copy take it. The same binary and version make the same bytes. It needs go, GNU tar and sha256sum.
#
# Usage: image.sh BINARY VERSION OUT [CERTIFICATES]
set -eu
binary=$1 version=$2 out=$3 certificates=${4:-/etc/ssl/certs/ca-certificates.crt}
most=61000000 # bytes of the binary: a promise of docs/deploy.md
user=65532    # not root, and nobody of the host

setting() { go version -m "$binary" | sed -n "s/^[[:space:]]*build[[:space:]]*$1=//p"; }
size() { wc -c <"$1" | tr -d ' '; }
fail() { echo "image: $binary $1" >&2; exit 1; }
[ "$(setting CGO_ENABLED)" = 0 ] || fail "needs a dynamic loader, which an empty image has not: build it with CGO_ENABLED=0 (make build)"
[ "$(size "$binary")" -le $most ] || fail "has $(size "$binary") bytes: at most $most are promised"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
pack() { tar --format=pax --pax-option=delete=atime,delete=ctime --mtime=@0 --numeric-owner --no-recursion "$@"; }

# The files of the image: /weir, /data for its user, root certificates.
root=$dir/root layout=$dir/layout
mkdir -p "$root/data" "$root/tmp" "$root/etc/ssl/certs" "$layout/blobs/sha256"
printf 'root:x:0:0:root:/:/none\nweir:x:%d:%d:weir:/data:/none\n' $user $user >"$root/etc/passwd"
cp "$binary" "$root/weir"
if [ -e "$certificates" ]; then
  cp "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
else
  echo "image: no $certificates: put without root certificates, TLS to others needs ca.crt in --nats-tls or SSL_CERT_FILE" >&2
fi
chmod 700 "$root/data" && chmod 1777 "$root/tmp" && chmod 755 "$root/weir" "$root/etc" "$root/etc/ssl" "$root/etc/ssl/certs"
find "$root/etc" -type f -exec chmod 644 {} +
pack --owner=$user --group=$user -C "$root" -cf "$dir/layer.tar" data
(cd "$root" && find tmp etc weir | LC_ALL=C sort) | pack --owner=0 --group=0 -C "$root" -rf "$dir/layer.tar" -T -
gzip -n <"$dir/layer.tar" >"$dir/layer"

# blob puts a file into the layout, and prints its descriptor.
blob() {
  sum=$(sha256sum <"$2" | cut -d ' ' -f 1)
  cp "$2" "$layout/blobs/sha256/$sum"
  printf '"mediaType":"%s","digest":"sha256:%s","size":%d' "$1" "$sum" "$(size "$2")"
}
# In a container its own loopback is out of reach. So that nobody publishes it by mistake, it starts with WEIR_TOKENS and
# WEIR_TLS_CERT, or WEIR_INSECURE.
cat >"$dir/config" <<JSON
{"architecture":"$(setting GOARCH)","os":"linux","config":{"User":"$user:$user","WorkingDir":"/data","Entrypoint":["/weir"],"Cmd":["serve"],
"Env":["WEIR_DATA=/data","WEIR_HTTP=0.0.0.0:8080"],"ExposedPorts":{"8080/tcp":{}},"Volumes":{"/data":{}},"StopSignal":"SIGTERM",
"Labels":{"org.opencontainers.image.title":"weir","org.opencontainers.image.version":"$version"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$(sha256sum <"$dir/layer.tar" | cut -d ' ' -f 1)"]}}
JSON
type=application/vnd.oci.image
config=$(blob $type.config.v1+json "$dir/config") layer=$(blob $type.layer.v1.tar+gzip "$dir/layer")
printf '{"schemaVersion":2,"mediaType":"%s","config":{%s},"layers":[{%s}]}' $type.manifest.v1+json "$config" "$layer" >"$dir/manifest"
manifest=$(blob $type.manifest.v1+json "$dir/manifest")
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[{%s,"annotations":{"org.opencontainers.image.ref.name":"%s","io.containerd.image.name":"docker.io/library/weir:%s"}}]}' \
  $type.index.v1+json "$manifest" "$version" "$version" >"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
find "$layout" -type f -exec chmod 644 {} + && chmod 755 "$layout/blobs" "$layout/blobs/sha256"
(cd "$layout" && find oci-layout index.json blobs | LC_ALL=C sort) | pack --owner=0 --group=0 -C "$layout" -cf "$out" -T -
echo "$out: weir:$version for linux/$(setting GOARCH), $(size "$out") bytes; load it with: docker load -i $out"
