# The completions, in the shells themselves: what each offers when its key is pressed.

load ../lib/helper

setup_file() {
	file_begin
	export COMPLETIONS=${builddir:-$BATS_TEST_DIRNAME/../..}/completions
}
teardown_file() { file_end; }
setup() {
	test_begin
	[[ -e $COMPLETIONS/zsh/_dlock ]] || left_out "no completions were made"
	[[ $BATS_TEST_DESCRIPTION == fish:* ]] || needs terminal
	export XDG_DATA_HOME=$PWD/data
	mkdir -p data/bash-completion/completions data/zsh data/fish/vendor_completions.d bin
	cp "$COMPLETIONS/bash/dlock" data/bash-completion/completions/
	cp "$COMPLETIONS/zsh/_dlock" data/zsh/
	cp "$COMPLETIONS/fish/dlock.fish" data/fish/vendor_completions.d/
	# A command with a completion of its own.
	printf '#!/bin/sh\n' >bin/fruit
	chmod +x bin/fruit
	PATH=$PWD/bin:$PATH
}
teardown() { test_end; }

# offered SHELL <LINES: what it offers in the place of the last word of each, sorted, on a line each.
offered() {
	case $1 in
	bash)
		press bash '. /usr/share/bash-completion/bash_completion
			complete -W "apple banana cherry" fruit'
		;;
	zsh)
		press zsh 'fpath=(~/data/zsh $fpath); autoload -Uz compinit; compinit -u -d ~/dump
			_fruit() { compadd apple banana cherry }; compdef _fruit fruit'
		;;
	fish)
		fish --no-config -c '
			set -p fish_complete_path ~/data/fish/vendor_completions.d
			complete -c fruit -f -a "apple banana cherry"
			for line in (cat)
				echo (complete -C $line | string replace -r "\t.*" "" | sort)
			end'
		;;
	esac
}
press() { PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$BATS_TEST_DIRNAME/../programs/press.py" "$@" 3>&- 4>&-; }

# offers SHELL <TABLE: of lines, each followed by => and what is offered. An underscore stands for an
# empty word.
offers() {
	sed -E 's/ => ?/\t/' >table
	sed 's/\t.*//; s/ _$/ /' table >lines
	sed 's/.*\t//' table >wanted
	offered "$1" <lines >got
	if ! diff wanted got >difference; then
		paste -d'\n' lines <(sed 's/^/  wanted: /' wanted) <(sed 's/^/  got:    /' got) |
			grep -A2 -xFf <(paste -d'\t' lines wanted got | awk -F'\t' '$2 != $3 { print $1 }') >&2
		return 1
	fi
}

# The same in each shell.
table() {
	cat <<-'END'
		dlock --conflict => --conflict-exit-code
		dlock --if-unreachable _ => fail skip
		dlock --on-lost=w => --on-lost=warn
		dlock ni => nightly
		dlock stat => status
		dlock -n -w5 ni => nightly
		dlock -nw 5 ni => nightly
		dlock --wait=5 --label x ni => nightly
		dlock --also ni => nightly
		dlock run ni => nightly
		dlock run st =>
		dlock status ni => nightly
		dlock status nightly dep => deploy:web
		dlock status --js => --json
		dlock status nightly --js => --json
		dlock --js =>
		dlock nightly fru => fruit
		dlock nightly fruit b => banana
		dlock nightly fruit _ => apple banana cherry
		dlock nightly -- fruit b => banana
		dlock --wait=5 -n nightly fruit b => banana
		dlock deploy:web fruit b => banana
		dlock run nightly fruit b => banana
		dlock run nightly -- fruit b => banana
		dlock status fruit ch =>
		dlock nightly -c fru => fruit
		dlock -c fru => fruit
		dlock nightly fruit -n --conflict =>
		dlock nightly --conflict =>
		dlock run nightly --conflict =>
		dlock nightly --wait 5 fru =>
		dlock guard sta => state
		dlock guard state fruit b => banana
		dlock guard --fence 5 state fruit b => banana
		dlock guard --fen => --fence
		dlock --report sta => state
		dlock --stop-signal US => USR1 USR2
		dlock --stop-signal SIGUS => SIGUSR1 SIGUSR2
		dlock --config conf --profile _ => batch strict
		dlock -S redis: => redis://
		dlock -S redi => redis+quorum:// redis+sentinel:// redis:// rediss+quorum:// rediss+sentinel:// rediss://
		dlock --server=zoo => --server=zookeeper://
		dlock -S fi => file:
		dlock -S val => valkey:// valkeys://
		dlock he => help
		dlock help st => status
		dlock help se => server
		dlock ver => version
	END
}

check_table() {
	begin_holder one nightly
	begin_holder two deploy:web
	touch state
	printf '[batch]\nttl = 5m\n[strict]\nttl=15s\n' >conf
	table | offers "$1"
	let_go one
	let_go two
}

@test "bash: options, their arguments, words, names, COMMAND" { check_table bash; }
@test "zsh: options, their arguments, words, names, COMMAND" { check_table zsh; }
@test "fish: options, their arguments, words, names, COMMAND" { check_table fish; }

# The options are those of --help: none is missing, none is of another command.
check_options() { # SHELL
	local command option words=()
	words=($(dlock --help | sed -nE '/^Commands/,/^$/{ /^  (help|version) /d; s/^  ([a-z]+) .*/\1/p; }'))
	assert_between ${#words[@]} 2 20
	for command in '' run "${words[@]}"; do
		echo "dlock ${command:+$command }-"
		echo "dlock ${command:+$command }--"
	done | offered "$1" | paste -d' ' - - >got
	for command in run run "${words[@]}"; do
		dlock "$command" --help | sed -nE '/^Options/,/^$/s/^ +(-.*)/\1/p' | sed 's/  .*//' |
			grep -oE -- '(^|[ ,])--?[[:alpha:]][[:alpha:]-]*' | tr -d ' ,' | sort -u | paste -sd' '
	done >wanted
	while IFS= read -r option; do
		tr ' ' '\n' <<<"$option" | sort -u | grep . | paste -sd' '
	done <got >got.sorted
	diff wanted got.sorted >&2
}

@test "bash: the options are those of --help" { check_options bash; }
@test "zsh: the options are those of --help" { check_options zsh; }
@test "fish: the options are those of --help" { check_options fish; }

# Names that a shell would read otherwise arrive as they are.
check_odd_names() { # SHELL
	local names=('two words' "it's" 'a$HOME"b' 'c*?[d]' 'e\f' 'ünï' '~h;&|') name i
	for i in "${!names[@]}"; do
		begin_holder "odd$i" "${names[i]}"
	done
	# Another program's, which no terminal should get to see.
	cli SET $'lock:bell\a' x PX 60000 >/dev/null
	cli SET $'lock:bell\n' x PX 60000 >/dev/null
	offers "$1" <<-'END'
		dlock run two => two words
		dlock run it => it's
		dlock run a => a$HOME"b
		dlock run c => c*?[d]
		dlock run e => e\f
		dlock run e\\ => e\f
		dlock run bell => bell?
		dlock run ü => ünï
		dlock run "tw => two words
	END
	cli DEL $'lock:bell\a' $'lock:bell\n' >/dev/null
	for i in "${!names[@]}"; do
		let_go "odd$i"
	done
}

@test "bash: odd names" { check_odd_names bash; }
@test "zsh: odd names" { check_odd_names zsh; }
@test "fish: odd names" { check_odd_names fish; }

# The server that the line names is asked; where none answers nothing is offered, in silence.
check_servers() { # SHELL
	begin_holder one nightly
	own_server other
	start two dlock -S "unix://$PWD/other/socket" elsewhere sleep 60
	wait_until redis-cli -s other/socket EXISTS lock:elsewhere -o /dev/null
	printf 'server = unix://%s/other/socket\n' "$PWD" >conf
	offers "$1" <<-END
		dlock ni => nightly
		dlock -S unix://$PWD/other/socket el => elsewhere
		dlock --server=unix://$PWD/other/socket el => elsewhere
		dlock -S 'unix://$PWD/other/socket' status el => elsewhere
		dlock -S unix://$PWD/other/socket ni =>
		dlock --prefix other: ni =>
		dlock -S unix://$PWD/nowhere ni =>
		dlock -S nonsense ni =>
	END
	unset DLOCK_SERVER
	offers "$1" <<-END
		dlock ni =>
		dlock --config conf el => elsewhere
	END
	kill -TERM $two_pid
	finish two
	export DLOCK_SERVER=unix://$SERVER/socket
	server_stop
	local before
	before=$(now_ms)
	offers "$1" <<<'dlock ni =>'
	assert_between $(($(now_ms) - before)) 900 $((4500 * TEST_PATIENCE))
	server_continue
	let_go one
}

@test "bash: servers, and none" { check_servers bash; }
@test "zsh: servers, and none" { check_servers zsh; }
@test "fish: servers, and none" { check_servers fish; }

@test "profiles are those of the configuration" {
	printf '[own]\nttl = 5m\n' >>config/dlock.conf
	local shell
	for shell in bash zsh fish; do
		offers $shell <<<'dlock --profile ow => own'
	done
}
