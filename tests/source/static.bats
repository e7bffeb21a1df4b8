# The tarball that runs on any Linux of its architecture, and the image of a container with nothing else: in a folder with
# busybox alone as its root.

load ../lib/helper
load ../lib/authority
load ../lib/sources

readonly OPTIONS='--enable-static --without-postgres --without-etcd --without-zookeeper'

setup_file() {
	file_begin
	export BATS_TEST_TIMEOUT=$((400 * TEST_PATIENCE))
	makes one || return
	local root=$BATS_FILE_TMPDIR/root name
	mkdir -p "$root/bin" "$root/tmp" "$root/proc" "$root/dev"
	tar -C "$BATS_FILE_TMPDIR" -xf "$BATS_FILE_TMPDIR"/one/made/dlock-*.tar.xz
	cp "$BATS_FILE_TMPDIR"/dlock-*/dlock* "$root/bin/"
	cp "$(command -v busybox)" "$root/bin/"
	for name in sh mkdir grep sleep cat kill ps touch test echo; do
		ln -s busybox "$root/bin/$name"
	done
}

setup() {
	test_begin
	root=$BATS_FILE_TMPDIR/root
}
teardown() { test_end; }
teardown_file() { file_end; }

# makes FOLDER: the sources anew, and the tarball of them.
makes() {
	mkdir "$BATS_FILE_TMPDIR/$1"
	sources_to "$BATS_FILE_TMPDIR/$1/tree" && builds ../tree "$BATS_FILE_TMPDIR/$1/made" $OPTIONS &&
		quietly_in "$BATS_FILE_TMPDIR/$1/made" make -s dist-static
}

# The file's server does, at a port that was free.
listens_for_tls() {
	port=$((port + 1))
	cli CONFIG SET tls-cert-file "$CA/good.pem" tls-key-file "$CA/good.key" tls-ca-cert-file "$CA/ca.pem" \
		tls-auth-clients no tls-port "$port" | grep -q OK
}

# within SCRIPT: by busybox's sh, with that folder as its root; the script is process 1 there.
within() {
	[[ $(id -u) == 0 ]] || left_out 'only root can change the root'
	local enter='mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" /bin/busybox env -i PATH=/bin DLOCK_SERVER="$1" sh -euc "$2"'
	try unshare --mount --pid --fork --kill-child sh -c "$enter" "$root" "${SERVER_WITHIN:-file:///tmp/locks}" "$1"
}

@test "static: two builds in two folders, at two times, are equal bit for bit" {
	makes other
	assert cmp "$BATS_FILE_TMPDIR"/one/made/dlock-*.tar.xz "$BATS_FILE_TMPDIR"/other/made/dlock-*.tar.xz
}

@test "static: neither program needs a library or a loader" {
	local program
	for program in dlock dlock-tls; do
		readelf -dlW "$root/bin/$program" >headers
		refute grep -qE 'NEEDED|INTERP' headers
	done
}

@test "static: run, status and hold in a script of busybox" {
	within 'mkdir -p /tmp/locks
		dlock x echo ran
		sh -euc "dlock hold -n held; touch /tmp/has; until test -e /tmp/go; do sleep 0.1; done" &
		until test -e /tmp/has; do sleep 0.1; done
		dlock status held >/dev/null
		dlock -n held echo never || echo busy $?
		touch /tmp/go
		wait
		dlock -w 60 held echo free'
	assert_equal "$status" 0 "$err"
	assert_equal "$out" $'ran\nbusy 1\nfree'
}

@test "static: as process 1 it reaps what is left to it, and passes SIGTERM on" {
	within 'mkdir -p /tmp/locks; exec dlock x sh -c "
		for i in 1 2 3; do sh -c \"sleep 0 & exec sleep 0\" & done; wait
		while ps -o stat,comm | grep -q \"^Z\"; do sleep 0.1; done
		trap \"echo terminated; exit 3\" TERM
		kill -TERM 1
		sleep 60 & wait"'
	assert_equal "$out" terminated
	assert_equal "$status" 3 "$err"
}

@test "static: TLS with ?cacert=; without the other program beside it the way out is named" {
	make_authority
	make_usual_certificates
	local port=$((15000 + RANDOM % 15000))
	wait_until listens_for_tls
	cp "$CA/ca.pem" "$root/tmp/"
	SERVER_WITHIN="rediss://127.0.0.1:$port?cacert=/tmp/ca.pem" within 'dlock -n x echo ran'
	expect 0 ran
	SERVER_WITHIN="rediss://127.0.0.1:$port" within 'dlock -n x echo ran'
	assert_equal "$status" 77
	mv "$root/bin/dlock-tls" "$root/"
	SERVER_WITHIN="rediss://127.0.0.1:$port" within 'dlock -n x echo ran'
	mv "$root/dlock-tls" "$root/bin/"
	assert_match "$err" 'dlock-tls'
	assert_equal "$(wc -l <<<"$err")" 1
}

@test "static: a name that /etc/hosts and DNS do not know: one line, with the way out" {
	SERVER_WITHIN='redis://no.such.host.invalid' within 'dlock -n x echo ran'
	assert_equal "$status" 69
	assert_match "$err" 'libc linked in, and asks /etc/hosts and DNS only'
}

# member DIGEST: its file in the layout, which has that digest.
member() {
	local file=image/blobs/${1/://}
	assert_equal "sha256:$(sha256sum "$file" | cut -d' ' -f1)" "$1"
	echo "$file"
}

@test "container: an image, made without a network: right digests, and one layer with dlock alone" {
	local top=$BATS_TEST_DIRNAME/../.. manifest config layer
	try sh "$top/build-aux/container-image" "$BATS_FILE_TMPDIR"/one/made/dlock-*.tar.xz image
	expect 0 "$out"
	assert_equal "$(jq -r .imageLayoutVersion image/oci-layout)" 1.0.0
	manifest=$(member "$(jq -r '.manifests[0].digest' image/index.json)")
	assert_equal "$(jq '.manifests[0].size' image/index.json)" "$(stat -c %s "$manifest")"
	config=$(member "$(jq -r .config.digest "$manifest")")
	assert_equal "$(jq .config.size "$manifest")" "$(stat -c %s "$config")"
	layer=$(member "$(jq -r '.layers[0].digest' "$manifest")")
	assert_equal "$(jq '.layers[0].size' "$manifest")" "$(stat -c %s "$layer")"
	assert_equal "$(jq -r '.rootfs.diff_ids[0]' "$config")" "$(jq -r '.layers[0].digest' "$manifest")"
	# As the Containerfile has it.
	assert_equal "$(jq -c .config.Entrypoint "$config")" \
		"$(sed -n 's/^ENTRYPOINT //p' "$top/build-aux/Containerfile")"
	assert_equal "$(tar -tf "$layer" | grep -v '/$' | paste -sd' ')" 'usr/bin/dlock usr/bin/dlock-tls'
	assert grep -qx 'COPY dlock\* /usr/bin/' "$top/build-aux/Containerfile"
	mkdir root
	tar -C root -xf "$layer"
	mkdir root/proc root/dev root/tmp
	[[ $(id -u) == 0 ]] || left_out 'only root can change the root'
	try unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc root/proc && mount --bind /dev root/dev &&
		exec env -i DLOCK_SERVER=file:///tmp "$(command -v chroot)" root "$@"' sh $(jq -r '.config.Entrypoint[]' "$config") \
		x /usr/bin/dlock -n y /usr/bin/dlock --version
	assert_equal "$status" 0 "$err"
	assert_match "$out" '^dlock [0-9]'
	# The same tarball, the same image.
	sh "$top/build-aux/container-image" "$BATS_FILE_TMPDIR"/one/made/dlock-*.tar.xz again >said
	assert cmp image/index.json again/index.json
}
