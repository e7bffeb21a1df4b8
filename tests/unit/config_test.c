/* What the environment and the configuration add to the command line, and which of them wins. */
#include "base/clock.h"

#include <sys/stat.h>

#include "base/failure.h"
#include "cli/options.h"
#include "net/server.h"
#include "read_options.h"
#include "tap.h"

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0 || chmod(path, mode) != 0) {
		printf("Bail out! %s cannot be written\n", path);
		exit(1);
	}
}

static void write_config(const char *text)
{
	write_file(config_path, text, 0600);
}

static void remove_config(void)
{
	unlink(config_path);
}

static void test_no_server(void)
{
	struct options options;
	struct failure failure;

	ok(!READ(&options, &failure, "x", "true") && failure.code == EXIT_CONFIG &&
			strstr(failure.text, "-S") != NULL &&
			strstr(failure.text, "DLOCK_SERVER") != NULL &&
			strstr(failure.text, "server = ") != NULL,
		"without a server there are three ways to name one: %s", failure.text);
	options_close(&options);
	ok(!READ(&options, &failure, "status") && failure.code == EXIT_CONFIG, "for status too");
	options_close(&options);
}

static void test_server_order(void)
{
	struct options options;
	struct failure failure;

	write_config("server = redis://file\n");
	ok(READ(&options, &failure, "x", "true"), "a server from a file");
	same(options.server->text, "redis://file", "is the one");
	options_close(&options);
	setenv("DLOCK_SERVER", "redis://environment", 1);
	ok(READ(&options, &failure, "x", "true"), "one from the environment");
	same(options.server->text, "redis://environment", "beats it");
	options_close(&options);
	ok(READ(&options, &failure, "-S", "redis://line", "x", "true"),
		"one from the command line");
	same(options.server->text, "redis://line", "beats both");
	options_close(&options);
	setenv("DLOCK_SERVER", "nonsense", 1);
	ok(!READ(&options, &failure, "x", "true") && failure.code == EXIT_USAGE &&
			strstr(failure.text, "DLOCK_SERVER: ") != NULL,
		"nonsense in the environment is refused: %s", failure.text);
	options_close(&options);
	ok(READ(&options, &failure, "-S", URL, "x", "true"), "but not where it does not count");
	options_close(&options);
	setenv("DLOCK_SERVER", "", 1);
	ok(READ(&options, &failure, "x", "true"), "an empty one is none");
	same(options.server->text, "redis://file", "so the file's counts");
	options_close(&options);
	unsetenv("DLOCK_SERVER");
	remove_config();
}

static void test_passwords(void)
{
	char file[sizeof(folder) + 32], text[200];
	struct options options;
	struct failure failure;

	snprintf(file, sizeof(file), "%s/password", folder);
	snprintf(text, sizeof(text), "server = redis://h\npassword-file = %s\n", file);
	write_file(file, "from file\r\nmore\n", 0640);
	write_config(text);
	ok(READ(&options, &failure, "x", "true"), "a password in a file");
	same(options.server->password, "from file", "is its first line");
	options_close(&options);
	setenv("REDISCLI_AUTH", "redis-cli's", 1);
	ok(READ(&options, &failure, "x", "true"), "REDISCLI_AUTH");
	same(options.server->password, "redis-cli's", "beats it");
	options_close(&options);
	setenv("DLOCK_PASSWORD", "ours", 1);
	ok(READ(&options, &failure, "x", "true"), "DLOCK_PASSWORD");
	same(options.server->password, "ours", "beats that");
	options_close(&options);
	ok(READ(&options, &failure, "-S", "redis://:url@h", "x", "true"), "the URL's");
	same(options.server->password, "url", "beats all");
	options_close(&options);
	unsetenv("DLOCK_PASSWORD");
	unsetenv("REDISCLI_AUTH");
	chmod(file, 0644);
	ok(!READ(&options, &failure, "x", "true") && failure.code == EXIT_CONFIG &&
			strstr(failure.text, "any user") != NULL,
		"a file that all may read is refused: %s", failure.text);
	options_close(&options);
	write_file(file, "\n", 0600);
	ok(!READ(&options, &failure, "x", "true") && failure.code == EXIT_CONFIG,
		"and an empty one");
	options_close(&options);
	unlink(file);
	ok(!READ(&options, &failure, "x", "true") && failure.code == EXIT_CONFIG,
		"and one that is missing");
	options_close(&options);
	mkdir(file, 0700);
	ok(!READ(&options, &failure, "x", "true") && failure.code == EXIT_CONFIG,
		"and a directory");
	options_close(&options);
	rmdir(file);
	remove_config();
}

static void test_profiles(void)
{
	struct options options;
	struct failure failure;

	write_config(
		"# dlock\nserver = redis://all\n  ttl = 30s\nwait = 1m\nquiet = yes\n"
		"; another comment\n[batch]\nwait: 2h ; long\n\tclose = on\nttl=20\nclose = no\n"
		"per-host = false\n[strict]\nserver = redis://strict\nnonblock = yes\n");
	ok(READ(&options, &failure, "x", "true"), "a file with profiles: %s", failure.text);
	ok(options.ttl == 30 * NANOS_PER_SEC && options.wait == 60 * NANOS_PER_SEC &&
			!options.close && options.verbosity == 0,
		"of which none is chosen");
	options_close(&options);
	ok(READ(&options, &failure, "--profile", "batch", "x", "true"), "one that is chosen");
	ok(options.ttl == 20 * NANOS_PER_SEC && options.wait == 7200 * NANOS_PER_SEC &&
			!options.close,
		"beats what stands before all of them");
	same(options.server->text, "redis://all", "and leaves the rest");
	options_close(&options);
	ok(READ(&options, &failure, "--profile=strict", "-t5", "-v", "x", "true"),
		"the command line");
	ok(options.ttl == 5 * NANOS_PER_SEC && options.verbosity == 2 && options.wait == 0,
		"beats a profile");
	same(options.server->text, "redis://strict", "that has another server");
	options_close(&options);
	ok(!READ(&options, &failure, "--profile", "none", "x", "true") &&
			failure.code == EXIT_CONFIG && strstr(failure.text, "[none]") != NULL,
		"a profile that is not there: %s", failure.text);
	options_close(&options);
	remove_config();
}

static void test_bad_files(void)
{
	static const struct {
		const char *text;
		const char *said;
	} files[] = {
		{"server = redis://h\nfoo = 1\n", ":2: unknown key 'foo'"},
		{"server = redis://h\n\n[p]\nfoo = 1\n", ":4: unknown key 'foo'"},
		{"# x\nttl = 0.5\n", ":2: ttl: '0.5'"},
		{"[p]\nttl = long\n", ":2: ttl: 'long'"},
		{"timeout = soon\n", ":1: wait: 'soon'"}, /* the name that messages use */
		{"server = nonsense\n", ":1: server: "},
		{"server =\n", ":1: server: "},
		{"syslog = maybe\n", ":1: syslog: 'maybe' is neither yes nor no"},
		{"syslog\n", ":1: neither [section] nor key = value"},
		{"[p\n", ":1: neither [section] nor key = value"},
		{"ttl = 60s\n= 5\n", ":2: unknown key ''"},
		{"command = true\n", ":1: unknown key 'command'"},
		{"config = /x\n", ":1: unknown key 'config'"},
		{"profile = p\n", ":1: unknown key 'profile'"},
		{"help = yes\n", ":1: unknown key 'help'"},
		{"unlock = yes\n", ":1: unknown key 'unlock'"},
		{"password-file = secret\n", ":1: password-file: 'secret' is no absolute path"},
		{"conflict-exit-code = 300\n", ":1: conflict-exit-code: '300'"},
		{"ttl = 6s\n\ngrace = 3s\n", ":3: a grace of 3000ms is more than 2000ms"},
		{"grace = 3s\nttl = 6s\n", ":2: a grace of 3000ms is more than 2000ms"},
	};

	for (size_t i = 0; i < COUNT(files); i++) {
		struct options options;
		struct failure failure;
		bool good;

		write_config(files[i].text);
		good = READ(&options, &failure, "-S", URL, "x", "true");
		if (!ok(!good && failure.code == EXIT_CONFIG &&
				    strstr(failure.text, files[i].said) != NULL,
			    "bad file %zu: %s", i, files[i].said))
			printf("# %d: %s\n", good ? 0 : (int)failure.code, failure.text);
		options_close(&options);
	}
	remove_config();
}

static void test_odd_files(void)
{
	struct options options;
	struct failure failure;
	char text[5000];

	write_config("");
	ok(READ(&options, &failure, "-S", URL, "x", "true"), "an empty file");
	options_close(&options);
	write_config("ttl = 9");
	ok(READ(&options, &failure, "-S", URL, "x", "true") && options.ttl == 9 * NANOS_PER_SEC,
		"a file without a last newline");
	options_close(&options);
	write_config("\xef\xbb\xbfttl = 9\r\nwait = 1\r\n");
	ok(READ(&options, &failure, "-S", URL, "x", "true") && options.ttl == 9 * NANOS_PER_SEC &&
			options.wait == NANOS_PER_SEC,
		"a file from elsewhere");
	options_close(&options);
	snprintf(text, sizeof(text), "ttl = 9\nlabel = %0190d\n", 7);
	write_config(text);
	ok(READ(&options, &failure, "-S", URL, "x", "true") && strlen(options.label) == 190,
		"a line of 198 bytes");
	options_close(&options);
	snprintf(text, sizeof(text), "ttl = 9\nlabel \t:  %0300d \t; %0100d\r\nwait = 1\n", 7, 8);
	write_config(text);
	ok(READ(&options, &failure, "-S", URL, "x", "true") && strlen(options.label) == 300 &&
			options.wait == NANOS_PER_SEC,
		"a longer one");
	options_close(&options);
	snprintf(text, sizeof(text), "ttl = 9\nlabel = ; %0300d\nwait = 1\n", 7);
	write_config(text);
	ok(READ(&options, &failure, "-S", URL, "x", "true") &&
			strcmp(options.label, "true") == 0 && options.wait == NANOS_PER_SEC,
		"a long comment behind a key: the value is empty, which for a label is none");
	options_close(&options);
	snprintf(text, sizeof(text), "ttl = 9\n#%0300d\nwait = 1\n", 7);
	write_config(text);
	ok(READ(&options, &failure, "-S", URL, "x", "true") && options.wait == NANOS_PER_SEC,
		"a long comment");
	options_close(&options);
	snprintf(text, sizeof(text), "ttl = 9\n[%0300d]\n", 7);
	write_config(text);
	ok(!READ(&options, &failure, "-S", URL, "x", "true") && failure.code == EXIT_CONFIG &&
			strstr(failure.text, ":2: a line of more than 198 bytes") != NULL,
		"a section that is too long: %s", failure.text);
	options_close(&options);
	snprintf(text, sizeof(text), "ttl = 9\nlabel = %04000d\n", 7);
	write_config(text);
	ok(!READ(&options, &failure, "-S", URL, "x", "true") && failure.code == EXIT_CONFIG &&
			strstr(failure.text, ":2: a line of more than") != NULL,
		"a line that is too long: %s", failure.text);
	options_close(&options);
	write_config("ttl = 9\nwait = 1\n");
	ok(READ(&options, &failure, "-S", URL, "-t", "2", "--grace", "0", "x", "true"),
		"grace may be 0");
	options_close(&options);
	remove_config();
	ok(!READ(&options, &failure, "-S", URL, "--config", "/nonexistent/x", "x", "true") &&
			failure.code == EXIT_CONFIG,
		"a file that is asked for must be there: %s", failure.text);
	options_close(&options);
	ok(!READ(&options, &failure, "-S", URL, "--config", folder, "x", "true") &&
			failure.code == EXIT_CONFIG,
		"a directory is no file: %s", failure.text);
	options_close(&options);
}

static void test_user_file(void)
{
	char path[sizeof(folder) + 32];
	struct options options;
	struct failure failure;

	snprintf(path, sizeof(path), "%s/dlock.conf", folder);
	write_file(path, "server = redis://user\n", 0600);
	setenv("XDG_CONFIG_HOME", folder, 1);
	ok(READ(&options, &failure, "x", "true"), "a file in XDG_CONFIG_HOME: %s", failure.text);
	same(options.server->text, "redis://user", "is read");
	options_close(&options);
	unlink(path);
	snprintf(path, sizeof(path), "%s/.config", folder);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/.config/dlock.conf", folder);
	write_file(path, "server = redis://home\n", 0600);
	setenv("XDG_CONFIG_HOME", "relative", 1);
	setenv("HOME", folder, 1);
	ok(READ(&options, &failure, "x", "true"), "one in the home directory: %s", failure.text);
	same(options.server->text, "redis://home", "is read where XDG_CONFIG_HOME says nothing");
	options_close(&options);
	unlink(path);
	snprintf(path, sizeof(path), "%s/.config", folder);
	rmdir(path);
	setenv("HOME", "/nonexistent", 1);
	unsetenv("XDG_CONFIG_HOME");
}

int main(void)
{
	open_world();
	test_no_server();
	test_server_order();
	test_passwords();
	test_profiles();
	test_bad_files();
	test_odd_files();
	test_user_file();
	return close_world();
}
