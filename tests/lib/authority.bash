# An authority for a file's tests, and certificates by it, in $CA: `load ../lib/helper`, then
# `load ../lib/authority`.

# The authority itself. Certificates are made in the folder $CA, in whatever folder the caller is.
make_authority() {
	export CA=$BATS_FILE_TMPDIR/ca
	mkdir "$CA"
	touch "$CA/index"
	cat >"$CA/ca.conf" <<-END
		[ca]
		default_ca = own
		[own]
		database = index
		rand_serial = yes
		new_certs_dir = .
		default_md = sha256
		default_days = 2
		policy = any
		copy_extensions = copy
		unique_subject = no
		[any]
		commonName = supplied
	END
	make_root ca
}

make_root() { # NAME [OPTION]...
	in_authority req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -days 2 \
		-keyout "$1.key" -out "$1.pem" "${@:2}"
}

make_certificate() { # NAME SUBJECTALTNAME [OPTION]...
	in_authority req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
		-addext "subjectAltName=$2" -keyout "$1.key" -out "$1.csr" || return
	in_authority ca -batch -config ca.conf -notext -cert ca.pem -keyfile ca.key -in "$1.csr" -out "$1.pem" \
		"${@:3}"
}

# in_authority ARG...: openssl in $CA. It tells of each key it makes; that is shown only if it fails.
in_authority() {
	local said
	said=$(cd "${CA:?}" && openssl "$@" 2>&1) || fail "openssl $1: $said"
}

# Of this host; of its name alone; of another one.
make_usual_certificates() {
	make_certificate good DNS:localhost,IP:127.0.0.1,IP:::1 &&
		make_certificate named DNS:localhost &&
		make_certificate elsewhere DNS:elsewhere.example,IP:127.0.0.2
}

# tls_begin DIR [OPTION]...: a server as server_begin starts it, but for TLS alone on the port in
# DIR/tls, with the certificate "good".
tls_begin() {
	local dir=$1 try
	shift
	mkdir -p "$dir"
	for try in {1..5}; do
		echo $((15000 + (RANDOM * 32768 + RANDOM) % 17000)) >"$dir/tls"
		if server_begin "$dir" $(tls_options "$dir") "$@"; then
			return 0
		fi
	done
	return 1
}

tls_again() { server_again "$1" $(tls_options "$1") "${@:2}"; } # DIR [OPTION]...

tls_options() {
	echo "--port 0 --tls-port $(<"$1/tls") --tls-cert-file $CA/good.pem --tls-key-file $CA/good.key" \
		"--tls-ca-cert-file $CA/ca.pem --tls-auth-clients no"
}

# present_at DIR NAME: the certificate that the server there shows from now on.
present_at() {
	redis-cli -s "$1/socket" CONFIG SET tls-cert-file "$CA/$2.pem" tls-key-file "$CA/$2.key" >/dev/null
}

# has_tls || return 0: if dlock was built without, every test ends with what it says then.
has_tls() {
	build_lacks tls || return 0
	try dlock x touch ran
	expect_failure 78 'rediss.*the program dlock-tls is not installed'
	refute_file ran
	return 1
}
