# ZooKeeper servers of a test file's own, on private ports. Each has a folder $BATS_FILE_TMPDIR/zookeeper/NAME.

zookeeper_dir() { echo "$BATS_FILE_TMPDIR/zookeeper/$1"; }
zookeeper_port() { cat "$(zookeeper_dir "$1")/port"; }
zookeeper_pid() { cat "$(zookeeper_dir "$1")/pid"; }
zookeeper_is_up() { [[ -e $(zookeeper_dir "$1")/pid ]] && is_alive "$(zookeeper_pid "$1")"; }

# zookeeper_url NAME...: all of them in one URL.
zookeeper_url() {
	local name hosts=''
	for name; do
		hosts+=,127.0.0.1:$(zookeeper_port "$name")
	done
	echo "zookeeper://${hosts#,}/locks"
}

# zookeeper_ask NAME WORD: a four letter word.
zookeeper_ask() {
	local fd
	exec {fd}<>"/dev/tcp/127.0.0.1/$(zookeeper_port "$1")" || return 1
	echo -n "$2" >&"$fd"
	timeout 2 cat <&"$fd" || true
	exec {fd}>&-
} 2>/dev/null

# zk NAME STATEMENT...: Python with kazoo, of which zk is a client of that server.
zk() {
	local fd answer file=$BATS_FILE_TMPDIR/zookeeper/kazoo
	[[ -e $file.pid ]] || kazoo_begin "$file"
	exec {fd}<>"/dev/tcp/127.0.0.1/$(<"$file")" || return
	printf '%s\n' "$(zookeeper_port "$1")" "${@:2}" END >&"$fd"
	answer=$(cat <&"$fd")
	exec {fd}>&-
	[[ ${answer%$'\n'*} == "$answer" ]] || printf '%s' "${answer%$'\n'*}"
	[[ ${answer##*$'\n'} == 0 ]] || { tail -n 20 "$file.err" >&2 && return 1; }
}

kazoo_begin() { # FILE
	env -u TEST_MARK "$PYTHON" "$BATS_TEST_DIRNAME/../programs/kazoo_server.py" "$1" \
		</dev/null >/dev/null 2>"$1.err" 3>&- 4>&- &
	remember $! "$1.pid"
	wait_until test -e "$1"
}

# Ends with the last of the servers.
kazoo_end() { # FILE
	[[ -n $(compgen -G "$BATS_FILE_TMPDIR/zookeeper/*/pid") ]] || { end_remembered "$1.pid" && rm -f "$1"; }
}

# zookeeper_start NAME: in its folder; returns at once.
zookeeper_start() {
	local dir jar classes=
	dir=$(zookeeper_dir "$1")
	# Only a server of several writes its own folder into the classpath: for its log's settings.
	for jar in zookeeper zookeeper-jute; do
		classes+=:/usr/share/java/$jar.jar
	done
	env -u TEST_MARK java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
		-Dzookeeper.4lw.commands.whitelist='*' -cp "$dir$classes" \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" \
		>>"$dir/log" 2>&1 </dev/null 3>&- 4>&- &
	remember $! "$dir/pid"
}

zookeeper_answers() { [[ $(zookeeper_ask "$1" srvr) == *Mode:* ]]; }

# zookeeper_prepare NAME...: folders of one server, or an ensemble, with $zookeeper_options as lines of zoo.cfg.
zookeeper_prepare() {
	[[ -z ${BATS_TEST_NAME:-} ]] || of_build zookeeper # not in setup_file
	local name dir ensemble='' number=0
	for name; do
		dir=$(zookeeper_dir "$name")
		rm -rf "$dir"
		mkdir -p "$dir/data"
		free_port >"$dir/port"
		echo $((++number)) >"$dir/data/myid"
		(($# == 1)) ||
			ensemble+="server.$number=127.0.0.1:$(free_port):$(free_port)"$'\n'
	done
	for name; do
		dir=$(zookeeper_dir "$name")
		printf '%s\n' tickTime=500 initLimit=10 syncLimit=4 minSessionTimeout=4000 \
			maxSessionTimeout=40000 maxClientCnxns=0 admin.enableServer=false \
			clientPortAddress=127.0.0.1 "clientPort=$(<"$dir/port")" "dataDir=$dir/data" \
			"$ensemble${zookeeper_options:-}" >"$dir/zoo.cfg"
	done
}

# zookeeper_begin NAME...: prepared, and running.
zookeeper_begin() { with_ports zookeeper_try zookeeper_end "$@"; }
zookeeper_try() { zookeeper_prepare "$@" && zookeeper_again "$@"; }

# zookeeper_awaited NAME: 1 if it has ended instead.
zookeeper_awaited() {
	wait_until -t 60 zookeeper_is_decided "$1" && zookeeper_is_up "$1" && return
	echo "ZooKeeper $1 does not run:" >&2
	tail -n 5 "$(zookeeper_dir "$1")/log" >&2
	return 1
}
zookeeper_is_decided() { zookeeper_answers "$1" || ! zookeeper_is_up "$1"; }

zookeeper_kill() { end_remembered "$(zookeeper_dir "$1")/pid"; } # NAME

zookeeper_again() { # NAME...: of several none answers before a majority runs
	local name
	for name; do
		zookeeper_start "$name"
	done
	for name; do
		zookeeper_awaited "$name" || return
	done
}

zookeeper_end() { # NAME...
	local name
	for name; do
		zookeeper_kill "$name"
	done
	kazoo_end "$BATS_FILE_TMPDIR/zookeeper/kazoo"
}
