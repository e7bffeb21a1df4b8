# Members of etcd on private ports, each with its folder: NAME.etcd. They are one cluster of one, or with
# etcd_begin a b c of three.

etcd_dir() { echo "$BATS_FILE_TMPDIR/$1.etcd"; }
etcd_pid() { cat "$(etcd_dir "$1")/pid"; }
etcd_port() { cat "$(etcd_dir "$1")/port"; }
etcd_is_up() { [[ -e $(etcd_dir "$1")/pid ]]; }

# etcd_url NAME...: all of them in one URL.
etcd_url() {
	local name hosts='' tls=''
	for name; do
		hosts+=,127.0.0.1:$(etcd_port "$name")
	done
	[[ ! -e $(etcd_dir "$1")/tls ]] || tls=s
	echo "etcd$tls://${hosts#,}${tls:+?cacert=$CA/ca.pem}"
}

# etcd_ctl NAME ARG...: etcdctl with that member.
etcd_ctl() {
	local scheme authority=()
	scheme=$(etcd_scheme "$1")
	[[ $scheme == http ]] || authority=(--cacert "$CA/ca.pem")
	ETCDCTL_API=3 etcdctl --endpoints "$scheme://127.0.0.1:$(etcd_port "$1")" "${authority[@]}" "${@:2}"
}

etcd_scheme() { if [[ -e $(etcd_dir "$1")/tls ]]; then echo https; else echo http; fi; }

# etcd_start NAME [OPTION]...: in its folder; returns at once.
etcd_start() {
	local dir scheme options
	dir=$(etcd_dir "$1")
	read -ra options <<<"$(cat "$dir/options" 2>/dev/null)"
	scheme=$(etcd_scheme "$1")
	env -u TEST_MARK etcd --name "$1" --data-dir "$dir/data" --logger zap --log-level error \
		--listen-client-urls "$scheme://127.0.0.1:$(<"$dir/port")" \
		--advertise-client-urls "$scheme://127.0.0.1:$(<"$dir/port")" \
		--listen-peer-urls "http://127.0.0.1:$(<"$dir/peer")" \
		--initial-advertise-peer-urls "http://127.0.0.1:$(<"$dir/peer")" \
		--initial-cluster "$(<"$dir/cluster")" "${options[@]}" "${@:2}" >>"$dir/log" 2>&1 </dev/null 3>&- 4>&- &
	remember $! "$dir/pid"
}

etcd_answers() { etcd_ctl "$1" --dial-timeout=1s --command-timeout=1s get x >/dev/null 2>&1; }

# etcd_begin NAME...: members of one cluster, with $etcd_options, and with TLS if $etcd_tls is not empty.
etcd_begin() {
	[[ -z ${BATS_TEST_NAME:-} ]] || of_build etcd # not in setup_file
	with_ports etcd_try etcd_end "$@"
}

etcd_try() { # NAME...: 1 if one has ended instead
	local name cluster='' dir
	for name; do
		dir=$(etcd_dir "$name")
		rm -rf "$dir"
		mkdir -p "$dir"
		echo -n "${etcd_options:-}" >"$dir/options"
		if [[ -n ${etcd_tls:-} ]]; then
			: >"$dir/tls"
			echo " --cert-file $CA/good.pem --key-file $CA/good.key $etcd_tls" >>"$dir/options"
		fi
		free_port >"$dir/port"
		free_port >"$dir/peer"
		cluster+=,$name=http://127.0.0.1:$(<"$dir/peer")
	done
	for name; do
		echo "${cluster#,}" >"$(etcd_dir "$name")/cluster"
		etcd_start "$name"
	done
	[[ -n ${etcd_unasked:-} ]] || for name; do
		wait_until etcd_is_decided "$name" && is_alive "$(etcd_pid "$name")" && continue
		echo "etcd $name does not run:" >&2
		tail -n 5 "$(etcd_dir "$name")/log" >&2
		return 1
	done
}
etcd_is_decided() { etcd_answers "$1" || is_gone "$(etcd_pid "$1")"; }

etcd_kill() { end_remembered "$(etcd_dir "$1")/pid"; } # NAME

etcd_again() { # NAME [OPTION]...
	etcd_start "$@"
	wait_until etcd_answers "$1"
}

# None of them answers alone.
etcd_again_all() { # NAME...
	local name
	for name; do
		etcd_start "$name"
	done
	for name; do
		wait_until etcd_answers "$name"
	done
}

etcd_end() { # NAME...
	local name
	for name; do
		etcd_kill "$name"
	done
}

# etcd_leader NAME...: which of them leads.
etcd_leader() {
	local name
	for name; do
		if etcd_ctl "$name" --command-timeout=1s endpoint status -w json 2>/dev/null |
			jq -e '.[0].Status | .leader == .header.member_id' >/dev/null; then
			echo "$name"
			return
		fi
	done
	return 1
}
