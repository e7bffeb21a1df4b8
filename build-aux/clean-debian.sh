# Sourced by try-packages and matrix, after prepare.sh: Debians with nothing in them, each in a folder, and commands in
# them. Only for root, with debootstrap. The mirror is the one that apt uses here. With KEEP=FOLDER the clean Debians
# stay there for the next time.

# Sets work, which goes when the script ends, and mirror.
clean_debian_begin() {
	if [ "$(id -u)" != 0 ]; then
		say "${0##*/}: only root can make a clean Debian in a folder"
		exit 1
	fi
	work=$(mktemp -d "${TMPDIR:-/tmp}/dlock-debian-XXXXXX")
	trap 'rm -rf --one-file-system "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
		grep -v security | head -n 1)
	eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
	export http_proxy="${http_proxy:-}"
}

# within ROOT SCRIPT: runs it there as root; no process of it is left behind. It has a /dev of its own, as
# a package may change what it finds in there.
within() {
	unshare --mount --pid --fork --kill-child sh -euc '
		mount -t proc proc "$1/proc"
		mount -t tmpfs -o mode=755 none "$1/dev"
		for device in null zero full random urandom tty; do
			: >"$1/dev/$device"
			mount --bind "/dev/$device" "$1/dev/$device"
		done
		mkdir "$1/dev/pts" "$1/dev/shm"
		mount -t devpts -o newinstance,ptmxmode=666 none "$1/dev/pts"
		ln -s pts/ptmx "$1/dev/ptmx"
		ln -s /proc/self/fd "$1/dev/fd"
		ln -s fd/0 "$1/dev/stdin"
		ln -s fd/1 "$1/dev/stdout"
		ln -s fd/2 "$1/dev/stderr"
		for file in hosts resolv.conf; do
			cp -L "/etc/$file" "$1/etc/$file"
		done
		exec chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
			sh -euc "$2"' within "$1" "$2"
}

# bootstrap SUITE ROOT: a clean Debian there; it lists no mirror but the one of this machine.
bootstrap() {
	base=${KEEP:-$work}/$1
	if [ ! -e "$base/etc/debian_version" ]; then
		say "$1: bootstrap"
		quietly debootstrap --variant=minbase "$1" "$base.new" "$mirror"
		mv "$base.new" "$base"
	fi
	cp -a "$base" "$2"
}
