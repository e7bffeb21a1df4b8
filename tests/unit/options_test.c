/* The command line as a struct options, and the table behind it. */
#include "cli/options_read.h"

#include <limits.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/failure.h"
#include "cli/option_table.h"
#include "cli/options.h"
#include "commands/commands.h"
#include "net/server.h"
#include "read_options.h"
#include "tap.h"

/* --- What is refused ----------------------------------------------------------------------- */

static const struct {
	const char *line[MOST];
	const char *said; /* in the message */
} refused[] = {
	{{NULL}, "no lock NAME"},
	{{"-S", URL}, "no lock NAME"},
	{{"-S", URL, "x"}, "no COMMAND"},
	{{"-S", URL, "x", "--"}, "no COMMAND"},
	{{"-S", URL, "run"}, "no lock NAME"},
	{{"-S", URL, "", "true"}, "is empty"},
	{{"-S", URL, "a\nb", "true"}, "control character"},
	{{"-S", URL, "\xff", "true"}, "not UTF-8"},
	{{"-S", URL, "x}:meta", "true"}, "companion"},
	{{"-S", URL, "redis://:pw@h", "true"}, "-S"},
	{{"-n", "9"}, "dlock hold"},
	{{"9"}, "dlock hold"},
	{{"list", "true"}, "dlock run list"},
	{{"-S", URL, "hold", "x", "true"}, "'true'"},
	{{"-S", URL, "hold"}, "no lock NAME"},
	{{"help", "x"}, "dlock run help"},
	{{"-n", "help"}, "dlock run help"},
	{{"version", "true"}, "dlock run version"},
	{{"-S", URL, "stauts"}, "did you mean dlock status?"},
	{{"-w", "5min", "x", "true"}, "--wait: '5min' is no duration; did you mean 5m?"},
	{{"-S", "localhost", "x", "true"}, "did you mean redis://localhost?"},
	{{"watch"}, "dlock run watch"},
	{{"break", "x"}, "dlock run break"},
	{{"config"}, "dlock run config"},
	{{"completion"}, "dlock run completion"},
	{{"check", "x"}, "takes options only"},
	{{"-u", "9"}, "dlock release"},
	{{"-nu", "9"}, "dlock release"},
	{{"--unlock", "9"}, "dlock release"},
	{{"-F", "x", "true"}, "renew the lock"},
	{{"--no-fork", "x", "true"}, "renew the lock"},
	{{"--fd", "9"}, "dlock hold"},
	{{"--fcntl", "x", "true"}, "leave the option out"},
	{{"--start", "5", "x", "true"}, "lock NAME of its own"},
	{{"--length=5", "x", "true"}, "lock NAME of its own"},
	{{"-z", "x", "true"}, "unknown option '-z'"},
	{{"-nz", "x", "true"}, "unknown option '-z'"},
	{{"--frobnicate", "x", "true"}, "'--frobnicate'"},
	{{"--timout", "x", "true"}, "unknown option '--timout'; did you mean --timeout?"},
	{{"--timout=secret", "x", "true"}, "unknown option '--timout'; did you mean --timeout?"},
	{{"--tlt", "5", "x", "true"}, "did you mean --ttl?"},
	{{"--prioirty", "5", "x", "true"}, "did you mean --priority?"},
	{{"--waitreplica", "1", "x", "true"}, "did you mean --wait-replicas?"},
	{{"--unlokc", "x"}, "unknown option '--unlokc'"},
	{{"--intervall", "1s", "x", "true"}, "unknown option '--intervall'"},
	{{"status", "--intervall", "1s"}, "did you mean --interval?"},
	{{"--jsno", "status"}, "did you mean --json?"},
	{{"--grcae", "--timout", "x", "true"}, "unknown option '--grcae'; did you mean --grace?"},
	{{"hold", "--pdi", "5", "x"}, "did you mean --pid?"},
	{{"--frobnicate=secret", "x", "true"}, "'--frobnicate'"},
	{{"--p", "x", "true"}, "ambiguous option '--p'"},
	{{"--password-file", "/x", "x", "true"}, "'--password-file'"},
	{{"-w"}, "--wait lacks its argument"},
	{{"--server"}, "--server lacks its argument"},
	{{"--nonblock=1", "x", "true"}, "--nonblock takes no argument"},
	{{"-w", "soon", "x", "true"}, "--wait: 'soon'"},
	{{"-w", "-1", "x", "true"}, "--wait: '-1'"},
	{{"-w", "", "x", "true"}, "--wait: ''"},
	{{"-t", "999ms", "x", "true"}, "--ttl: '999ms'"},
	{{"-t", "0", "x", "true"}, "--ttl: '0'"},
	{{"--also", "", "x", "true"}, "is empty"},
	{{"--also", "a\nb", "x", "true"}, "control character"},
	{{"--also"}, "--also lacks its argument"},
	{{"--permits", "0", "x", "true"}, "--permits: '0'"},
	{{"--permits", "1000001", "x", "true"}, "--permits: '1000001'"},
	{{"--priority", "1001", "x", "true"}, "--priority: '1001'"},
	{{"--priority=-1001", "x", "true"}, "--priority: '-1001'"},
	{{"-E", "256", "x", "true"}, "--conflict-exit-code: '256'"},
	{{"-E", "-1", "x", "true"}, "--conflict-exit-code: '-1'"},
	{{"-E", "1x", "x", "true"}, "--conflict-exit-code: '1x'"},
	{{"-E", " 1", "x", "true"}, "--conflict-exit-code: ' 1'"},
	{{"-E", "+1", "x", "true"}, "--conflict-exit-code: '+1'"},
	{{"-E", "", "x", "true"}, "--conflict-exit-code: ''"},
	{{"-E", "1000", "x", "true"}, "--conflict-exit-code: '1000'"},
	{{"-E", "99999999999999999999", "x", "true"}, "--conflict-exit-code: '99999999999999999999'"},
	{{"-E", "1.5", "x", "true"}, "--conflict-exit-code: '1.5'"},
	{{"-E", "abc", "x", "true"}, "--conflict-exit-code: 'abc'"},
	{{"-E", "0x1", "x", "true"}, "--conflict-exit-code: '0x1'"},
	{{"-E", "1 ", "x", "true"}, "--conflict-exit-code: '1 '"},
	{{"--stop-signal", "FOO", "x", "true"}, "--stop-signal: 'FOO'"},
	{{"--stop-signal", "0", "x", "true"}, "--stop-signal: '0'"},
	{{"--stop-signal", "32", "x", "true"}, "--stop-signal: '32'"},
	{{"--stop-signal", "65", "x", "true"}, "--stop-signal: '65'"},
	{{"--stop-signal", "15x", "x", "true"}, "--stop-signal: '15x'"},
	{{"--stop-signal", "RTMIN+", "x", "true"}, "--stop-signal: 'RTMIN+'"},
	{{"--stop-signal", "RTMAX+1", "x", "true"}, "--stop-signal: 'RTMAX+1'"},
	{{"--stop-signal", "SIG", "x", "true"}, "--stop-signal: 'SIG'"},
	{{"--stop-signal", "", "x", "true"}, "--stop-signal: ''"},
	{{"--stop-signal", "-1", "x", "true"}, "--stop-signal: '-1'"},
	{{"--stop-signal", "9999", "x", "true"}, "--stop-signal: '9999'"},
	{{"--stop-signal", "SIGFOO", "x", "true"}, "--stop-signal: 'SIGFOO'"},
	{{"--stop-signal", "TERM ", "x", "true"}, "--stop-signal: 'TERM '"},
	{{"--stop-signal", "TERMX", "x", "true"}, "--stop-signal: 'TERMX'"},
	{{"--stop-signal", "1.5", "x", "true"}, "--stop-signal: '1.5'"},
	{{"--on-lost", "ignore", "x", "true"}, "--on-lost: 'ignore'"},
	{{"--on-lost", "", "x", "true"}, "--on-lost: ''"},
	{{"--on-lost", "Stop", "x", "true"}, "--on-lost: 'Stop'"},
	{{"--on-lost", "stopp", "x", "true"}, "--on-lost: 'stopp'"},
	{{"--on-lost", "stop ", "x", "true"}, "--on-lost: 'stop '"},
	{{"--on-lost", "1", "x", "true"}, "--on-lost: '1'"},
	{{"--prefix", "{", "x", "true"}, "--prefix: '{'"},
	{{"--cooldown", "366d", "x", "true"}, "--cooldown: '366d' is more than 365d"},
	{{"--once", "", "x", "true"}, "--once: '' is empty"},
	{{"--once", "a", "--once-for", "366d", "x", "true"}, "--once-for: '366d' is more"},
	{{"--once", "a", "--once-for", "0", "x", "true"}, "--once-for: '0' is less than 1s"},
	{{"--once-for", "1d", "x", "true"}, "--once ID, which is not given"},
	{{"--at-least", "366d", "x", "true"}, "--at-least: '366d' is more than 365d"},
	{{"--max-run", "-1", "x", "true"}, "--max-run: '-1'"},
	{{"--if-unreachable", "retry", "x", "true"}, "--if-unreachable: 'retry'"},
	{{"--report-fd", "-1", "x", "true"}, "--report-fd: '-1'"},
	{{"-S", URL, "--report", "f", "status"}, "--report is no option of dlock status"},
	{{"-S", "localhost:6379", "x", "true"}, "--server: "},
	{{"-S", "", "x", "true"}, "--server: "},
	{{"-S", URL, "--grace", "20s", "x", "true"}, "grace of 20000ms is more than 10000ms"},
	{{"-S", URL, "-t", "6", "--grace", "2.001", "x", "true"}, "2001ms is more than 2000ms"},
	{{"-S", URL, "--grace", "1001ms", "-t", "3", "x", "true"}, "1001ms is more than 1000ms"},
	{{"-S", URL, "-t", "1h", "--grace", "10.1", "x", "true"}, "10100ms is more than 10000ms"},
	{{"-S", URL, "status", "-c", "true"}, "--command is no option of dlock status"},
	{{"-S", URL, "run", "x"}, "no COMMAND"},
	{{"-S", URL, "x", "-c"}, "--command lacks"},
	{{"-S", URL, "x", "-c", "a", "b"}, "nothing may follow: 'b'"},
	{{"-S", URL, "-c", "a", "x", "b"}, "nothing may follow: 'b'"},
	{{"-S", URL, "-c", "a", "x", "-c", "b"}, "twice"},
	{{"-S", URL, "--json", "x", "true"}, "--json is no option of dlock run"},
	{{"-S", URL, "acquire", "x", "true"}, "nothing may follow here: 'true'"},
	{{"-S", URL, "acquire", "--cooldown", "1h", "x"},
		"--cooldown is no option of dlock acquire"},
	{{"-S", URL, "acquire", "x", "--report", "f"}, "--report is no option of dlock acquire"},
	{{"-S", URL, "acquire", "a\nb"}, "control character"},
	{{"-S", URL, "renew", "x"}, "no TOKEN given"},
	{{"-S", URL, "renew", "x", ""}, "the TOKEN is empty"},
	{{"-S", URL, "renew", "x", "a b"}, "the TOKEN holds a blank"},
	{{"-S", URL, "renew", "x", "a 1 2"}, "the TOKEN holds a blank"},
	{{"-S", URL, "renew", "x", "a "}, "the TOKEN holds a blank"},
	{{"-S", URL, "renew", "x", " 1"}, "the TOKEN is empty"},
	{{"-S", URL, "renew", "x", "a 1", "1"}, "nothing may follow here: '1'"},
	{{"-S", URL, "renew", "x", "a", "1", "1"}, "nothing may follow here: '1'"},
	{{"-S", URL, "renew", "x", "a", "b"}, "nothing may follow here: 'b'"},
	{{"-S", URL, "renew", "-n", "x", "a"}, "--nonblock is no option of dlock renew"},
	{{"-S", URL, "release", "-t", "9", "x", "a"}, "--ttl is no option of dlock release"},
	{{"-S", URL, "release", "--force", "x", "a"}, "nothing may follow here: 'a'"},
	{{"-S", URL, "--force", "x", "true"}, "--force is no option of dlock run"},
	{{"-S", URL, "release", "--fence", "1", "x", "a"}, "--fence goes with --force"},
	{{"-S", URL, "status", "-n"}, "--nonblock is no option of dlock status"},
	{{"-S", URL, "-w", "1", "status"}, "--wait is no option of dlock status"},
	{{"-S", URL, "status", "a", "b\n"}, "control character"},
	{{"-S", URL, "status", ""}, "is empty"},
	{{"guard", "--fence", "1"}, "no STATEFILE"},
	{{"guard", "--fence", "1", "", "true"}, "no STATEFILE"},
	{{"guard", "--fence", "1", "x"}, "no COMMAND"},
	{{"guard", "--fence", "1", "x", "--"}, "no COMMAND"},
	{{"guard", "x", "true"}, "DLOCK_FENCE"},
	{{"guard", "--fence", "0", "x", "true"}, "--fence: '0'"},
	{{"guard", "--fence", "-1", "x", "true"}, "--fence: '-1'"},
	{{"guard", "--fence", "+1", "x", "true"}, "--fence: '+1'"},
	{{"guard", "--fence", "1x", "x", "true"}, "--fence: '1x'"},
	{{"guard", "--fence", "9223372036854775808", "x", "true"}, "'9223372036854775808'"},
	{{"guard", "-S", URL, "--fence", "1", "x", "true"}, "--server is no option of dlock guard"},
	{{"--fence", "1", "x", "true"}, "--fence is no option of dlock run"},
};

static void test_refused(void)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct options options;
		struct failure failure;
		bool good = read_line(&options, refused[i].line, &failure);

		if (!ok(!good && failure.code == EXIT_USAGE &&
				    strstr(failure.text, refused[i].said) != NULL,
			    "bad line %zu: %s", i, refused[i].said))
			printf("# %d: %s\n", good ? 0 : (int)failure.code, failure.text);
		options_close(&options);
	}
}

/* --- What is accepted ---------------------------------------------------------------------- */

static void test_defaults(void)
{
	struct options options;
	struct failure failure;

	if (!ok(READ(&options, &failure, "-S", URL, "deploy", "/bin/make", "-j", "--", "x"),
		    "a plain line"))
		return;
	same(options.command->word, "run", "runs");
	same(options.name, "deploy", "its NAME");
	same(options.argv[0], "/bin/make", "its COMMAND");
	same(options.argv[1], "-j", "an option of COMMAND is COMMAND's");
	same(options.argv[2], "--", "and so is what ends them");
	ok(options.argv[3] != NULL && options.argv[4] == NULL, "and all the rest");
	same(options.label, "make", "the label is COMMAND's base name");
	same(options.prefix, "lock:", "the prefix");
	same(options.server->text, URL, "the server");
	ok(options.server->password == NULL, "which has no password");
	ok(options.wait == OPTIONS_WAIT_FOREVER, "waits for ever");
	ok(options.ttl == 60 * NANOS_PER_SEC, "a TTL of 60s");
	ok(options.settle == 3 * NANOS_PER_SEC && !options.settle_given,
		"a server settles for 3s, which nobody asked for");
	ok(options.grace == 10 * NANOS_PER_SEC, "a grace of 10s");
	ok(options.stop_signal == SIGTERM, "the stop signal");
	ok(options.on_lost == ON_LOST_STOP, "stops when the lock is lost");
	ok(options.conflict_exit == 1, "exits with 1");
	ok(options.verbosity == 1, "is neither quiet nor verbose");
	ok(!options.close && !options.per_host && !options.syslog, "without what is not asked for");
	ok(!options.cooldown && !options.once && !options.at_least, "every time, and no longer");
	ok(options.once_for == 7 * 24 * 3600 * NANOS_PER_SEC, "an ID is remembered for 7d");
	ok(options.max_run == 0, "for as long as it takes");
	ok(options.if_unreachable == IF_UNREACHABLE_FAIL, "fails where there is no server");
	ok(!options.report && options.report_fd == -1, "reports to nobody");
	ok(options.started > 0, "and knows when it began");
	options_close(&options);
}

static void test_all(void)
{
	struct options options;
	struct failure failure;

	if (!ok(READ(&options, &failure, "-ovvxE7", "-t9", "--timeout=2.5", "-S" URL "/1",
			"--stop-signal", "SIGINT", "--grace=3", "--on-lost=warn", "--label=me",
			"run", "--syslog", "status", "true"),
		    "a line with everything"))
		return;
	same(options.name, "status", "run takes any word as NAME");
	ok(options.close && options.syslog, "flags");
	ok(options.verbosity == 3, "-vv");
	ok(options.conflict_exit == 7, "-E7");
	ok(options.ttl == 9 * NANOS_PER_SEC, "-t9");
	ok(options.wait == 2500 * NANOS_PER_MS, "--timeout=2.5");
	ok(options.grace == 3 * NANOS_PER_SEC, "--grace=3");
	ok(options.stop_signal == SIGINT, "--stop-signal SIGINT");
	ok(options.on_lost == ON_LOST_WARN, "--on-lost=warn");
	same(options.label, "me", "--label=me");
	ok(options.server->db == 1, "-SURL");
	options_close(&options);
}

static void test_cron(void)
{
	struct options options;
	struct failure failure;

	if (!ok(READ(&options, &failure, "-S", URL, "--cooldown=1d", "--once=a", "--once-for=2d",
			"--at-least=3", "--max-run=4", "--if-unreachable=skip", "--report=f",
			"--report-fd=5", "x", "true"),
		    "a line for cron"))
		return;
	ok(options.cooldown == 24 * 3600 * NANOS_PER_SEC, "--cooldown=1d");
	same(options.once, "a", "--once=a");
	ok(options.once_for == 48 * 3600 * NANOS_PER_SEC, "--once-for=2d");
	ok(options.at_least == 3 * NANOS_PER_SEC, "--at-least=3");
	ok(options.max_run == 4 * NANOS_PER_SEC, "--max-run=4");
	ok(options.if_unreachable == IF_UNREACHABLE_SKIP, "--if-unreachable=skip");
	same(options.report, "f", "--report=f");
	ok(options.report_fd == 5, "--report-fd=5");
	options_close(&options);
}

/* Where a command line that is wrong is to be reported is read all the same. */
static void test_report(void)
{
	struct options options;
	struct failure failure;

	ok(!READ(&options, &failure, "--frobnicate", "-u", "--report", "f", "--report-fd=5", "x"),
		"a line that is wrong");
	ok(strstr(failure.text, "frobnicate") != NULL, "its first fault is the one that counts");
	same(options.report, "f", "its --report");
	ok(options.report_fd == 5, "its --report-fd");
	options_close(&options);
}

static void test_wait(void)
{
	static const struct {
		const char *line[MOST];
		nanos wanted;
	} lines[] = {
		{{"-S", URL, "-n", "x", "true"}, 0},
		{{"-S", URL, "--nb", "x", "true"}, 0},
		{{"-S", URL, "--nonblock", "x", "true"}, 0},
		{{"-S", URL, "--nonblocking", "x", "true"}, 0},
		{{"-S", URL, "-w", "0", "x", "true"}, 0},
		{{"-S", URL, "-w", "5", "-n", "x", "true"}, 0},
		{{"-S", URL, "-n", "-w", "5", "x", "true"}, 5 * NANOS_PER_SEC},
		{{"-S", URL, "-w", "5", "-w", "1m", "x", "true"}, 60 * NANOS_PER_SEC},
	};

	for (size_t i = 0; i < COUNT(lines); i++) {
		struct options options;
		struct failure failure;

		ok(read_line(&options, lines[i].line, &failure) && options.wait == lines[i].wanted,
			"the later of -n and -w wins, line %zu", i);
		options_close(&options);
	}
}

static void test_shell(void)
{
	static const struct {
		const char *line[MOST];
		const char *shell, *string, *label;
	} lines[] = {
		{{"-S", URL, "x", "-c", "make all"}, "/bin/dash", "make all", "make"},
		{{"-S", URL, "x", "--command", "/usr/bin/make;"}, "/bin/dash", "/usr/bin/make;",
			"make"},
		{{"-S", URL, "-c", " make", "x"}, "/bin/dash", " make", "make"},
		{{"-S", URL, "-c", "A=1 make", "x"}, "/bin/dash", "A=1 make", "dash"},
		{{"-S", URL, "-c", "'make'", "x"}, "/bin/dash", "'make'", "dash"},
		{{"-S", URL, "-c", "", "x"}, "/bin/dash", "", "dash"},
		{{"-S", URL, "--label", "me", "-c", "make", "9"}, "/bin/dash", "make", "me"},
		{{"-S", URL, "--label", "", "-c", "make", "9"}, "/bin/dash", "make", "make"},
		{{"-S", URL, "x", "--", "-c", "make"}, "-c", "make", "-c"},
	};

	setenv("SHELL", "/bin/dash", 1);
	for (size_t i = 0; i < COUNT(lines); i++) {
		struct options options;
		struct failure failure;
		bool by_shell = lines[i].shell[0] == '/';

		if (!ok(read_line(&options, lines[i].line, &failure), "-c, line %zu", i))
			continue;
		same(options.argv[0], lines[i].shell, "the shell");
		same(options.argv[by_shell ? 2 : 1], lines[i].string, "the string");
		ok(options.argv[by_shell ? 3 : 2] == NULL, "and nothing else");
		same(options.label, lines[i].label, "the label");
		options_close(&options);
	}
	unsetenv("SHELL");
	for (int i = 0; i < 2; i++, setenv("SHELL", "", 1)) {
		struct options options;
		struct failure failure;

		ok(READ(&options, &failure, "-S", URL, "x", "-c", "y"), "-c without SHELL");
		same(options.argv[0], "/bin/sh", "is the standard one");
		options_close(&options);
	}
}

static void test_signals(void)
{
	static const char *const names[] = {"TERM", "SIGTERM", "15", "term", "sigTerm"};
	char number[16];
	struct options options;
	struct failure failure;

	for (size_t i = 0; i < COUNT(names); i++) {
		ok(READ(&options, &failure, "-S", URL, "--stop-signal", names[i], "x", "true") &&
				options.stop_signal == SIGTERM,
			"%s is SIGTERM", names[i]);
		options_close(&options);
	}
	ok(READ(&options, &failure, "-S", URL, "--stop-signal", "RTMIN+1", "x", "true") &&
			options.stop_signal == SIGRTMIN + 1,
		"RTMIN+1");
	options_close(&options);
	ok(READ(&options, &failure, "-S", URL, "--stop-signal", "SIGRTMAX-2", "x", "true") &&
			options.stop_signal == SIGRTMAX - 2,
		"SIGRTMAX-2");
	options_close(&options);
	snprintf(number, sizeof(number), "%d", SIGRTMAX);
	ok(READ(&options, &failure, "-S", URL, "--stop-signal", number, "x", "true") &&
			options.stop_signal == SIGRTMAX,
		"%s", number);
	options_close(&options);
}

static void test_per_host(void)
{
	char host[HOST_NAME_MAX + 1] = "", wanted[600], name[513];
	struct options options;
	struct failure failure;

	gethostname(host, sizeof(host) - 1);
	snprintf(wanted, sizeof(wanted), "%s/x", host);
	ok(READ(&options, &failure, "-S", URL, "--per-host", "x", "true"), "--per-host");
	same(options.name, wanted, "is HOST/NAME");
	options_close(&options);
	memset(name, 'x', sizeof(name));
	name[512] = '\0';
	ok(!READ(&options, &failure, "-S", URL, "--per-host", name, "true") &&
			failure.code == EXIT_USAGE,
		"which must not become too long");
	options_close(&options);
}

static void test_status(void)
{
	struct options options;
	struct failure failure;

	if (!ok(READ(&options, &failure, "-q", "status", "a", "--json", "b*", "-S", URL, "--",
			"-c"),
		    "status takes options anywhere"))
		return;
	same(options.command->word, "status", "its command");
	ok(options.json, "--json after an operand");
	ok(options.verbosity == 0, "-q before the command word");
	ok(options.operand_count == 3, "three operands");
	same(options.operands[0], "a", "the first");
	same(options.operands[1], "b*", "the second, a GLOB");
	same(options.operands[2], "-c", "the third, behind --");
	options_close(&options);
	ok(READ(&options, &failure, "-S", URL, "status", "[\n"), "a GLOB may be anything");
	options_close(&options);
}

static void test_detached(void)
{
	struct options options;
	struct failure failure;

	ok(READ(&options, &failure, "-S", URL, "acquire", "9", "-t", "2"), "a number is a NAME");
	same(options.name, "9", "the name");
	ok(options.label == NULL, "no label, where none is given: a command has its own");
	options_close(&options);
	ok(READ(&options, &failure, "-S", URL, "renew", "x", "h:1:a") && !options.ttl_given,
		"renew without -t");
	same(options.token, "h:1:a", "the token");
	options_close(&options);
	ok(READ(&options, &failure, "-S", URL, "renew", "x", "h:1:a", "-t", "60") &&
			options.ttl_given,
		"and with the one that is the preset");
	options_close(&options);
	ok(READ(&options, &failure, "-S", URL, "release", "x", "--force") && options.force &&
			options.token == NULL,
		"--force needs no token");
	options_close(&options);
}

static void test_guard(void)
{
	struct options options;
	struct failure failure;

	setenv("DLOCK_SERVER", "nonsense", 1); /* guard needs none, and looks at none */
	ok(READ(&options, &failure, "guard", "--fence=9223372036854775807", "-q", "s", "--", "c",
		   "--fence", "-q"),
		"a token by --fence");
	ok(options.fence == INT64_MAX, "the greatest there is");
	same(options.state_file, "s", "STATEFILE");
	same(options.argv[0], "c", "COMMAND");
	same(options.argv[1], "--fence", "its own options");
	same(options.argv[2], "-q", "stay its own");
	ok(options.argv[3] == NULL && options.verbosity == 0, "and guard's own stand before");
	options_close(&options);

	setenv("DLOCK_FENCE", "41", 1);
	ok(READ(&options, &failure, "guard", "s", "c") && options.fence == 41, "DLOCK_FENCE");
	options_close(&options);
	ok(READ(&options, &failure, "guard", "--fence", "42", "s", "c") && options.fence == 42,
		"is outranked by --fence");
	options_close(&options);
	setenv("DLOCK_FENCE", "4l", 1);
	ok(!READ(&options, &failure, "guard", "s", "c") && failure.code == EXIT_USAGE,
		"a bad DLOCK_FENCE");
	ok(strstr(failure.text, "DLOCK_FENCE: '4l'") != NULL, "is quoted");
	options_close(&options);
	unsetenv("DLOCK_FENCE");
	unsetenv("DLOCK_SERVER");
}

static void test_scrub(void)
{
	char line[] = "-Sredis://u:s3cret@h", again[] = "--server=redis://:s3cret@h/1",
	     word[] = "x";
	char *argv[] = {word, line, again, word, word, NULL};
	struct options options;
	struct failure failure;
	bool done;

	ok(options_read(&options, commands, 5, argv, &done, &failure),
		"passwords on the command line");
	same(line, "-Sredis://u:xxxxxx@h", "are overwritten there");
	same(again, "--server=redis://:xxxxxx@h/1", "each of them");
	same(options.server->password, "s3cret", "and known to dlock alone");
	options_close(&options);
}

/* --- The table ----------------------------------------------------------------------------- */

static void test_table(void)
{
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		int ends =
			(row->set != NULL) + (row->show != SHOW_NOTHING) + (row->instead != NULL);

		ok(ends == 1, "--%s sets, shows or is refused", row->names[0]);
		for (const char *const *name = row->names; *name != NULL; name++)
			ok(option_by_name(*name) == row, "--%s stands once in the table", *name);
		for (const char *letter = row->letters; letter != NULL && *letter != '\0'; letter++)
			ok(option_by_letter(*letter) == row, "-%c stands once in the table",
				*letter);
		ok(row->argument != NULL || row->completion == COMPLETE_NOTHING,
			"--%s has nothing to complete without an argument", row->names[0]);
	}
}

int main(void)
{
	open_world();
	test_refused();
	test_defaults();
	test_all();
	test_cron();
	test_report();
	test_wait();
	test_shell();
	test_signals();
	test_per_host();
	test_status();
	test_detached();
	test_guard();
	test_scrub();
	test_table();
	return close_world();
}
