/* owner_record.c and owner.c: what is written can be read, and what anybody may write does no harm.
 */
#include "redis/script/owner_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count, failures;

static void ok(bool good, const char *what)
{
	failures += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, what);
}

static void test_self(void)
{
	struct owner self, read;
	char text[OWNER_TEXT];
	char host[256];

	setenv("LOGNAME", "t\tes\nter", 1);
	owner_self(&self, "la\033bel\xFF");
	ok(self.pid == getpid(), "the pid");
	ok(self.start > 0, "the start");
	ok(strlen(self.boot) == 36, "the boot id");
	ok(self.space > 0, "the PID namespace");
	ok(gethostname(host, sizeof(host)) == 0 && strcmp(self.host, host) == 0, "the host");
	ok(strcmp(self.user, "t?es?ter") == 0, "the user, made printable");
	ok(strcmp(self.label, "la?bel?") == 0, "the label, made printable");
	owner_read(&read, owner_write(&self, text));
	ok(memcmp(&read, &self, sizeof(self)) == 0 ||
			(strcmp(read.host, self.host) == 0 && strcmp(read.boot, self.boot) == 0 &&
				strcmp(read.user, self.user) == 0 &&
				strcmp(read.label, self.label) == 0 && read.pid == self.pid &&
				read.start == self.start && read.space == self.space),
		"written and read");
	unsetenv("LOGNAME");
	unsetenv("USER");
	owner_self(&self, "");
	ok(self.user[0] != '\0', "the user from /etc/passwd");
}

static void test_near(void)
{
	struct owner self, other;
	char text[OWNER_TEXT];

	owner_self(&self, "");
	owner_read(&other, owner_write(&self, text));
	ok(owner_is_near(&other, &self), "near: what was written of itself");
	other.space++;
	ok(!owner_is_near(&other, &self), "not in another PID namespace");
	owner_read(&other, text);
	other.boot[0] ^= 1;
	ok(!owner_is_near(&other, &self), "nor of another boot");
	owner_read(&other, text);
	other.host[0] ^= 1;
	ok(!owner_is_near(&other, &self), "nor on another host");
	*strstr(text, "\tpidns=") = '\0';
	owner_read(&other, text);
	ok(other.space == 0 && !owner_is_near(&other, &self), "nor where the record has none");
	self.space = 0;
	ok(!owner_is_near(&other, &self), "nor where neither has one");
	owner_read(&other, "pidns=-1\tpidns=\tpidns=x");
	ok(other.space == 0, "what is no number is none");
}

static void test_cut(void)
{
	struct owner self;
	char label[1000];
	char text[OWNER_TEXT];

	for (size_t i = 0; i + 2 < sizeof(label); i += 2)
		memcpy(label + i, "é", 3);
	owner_self(&self, label);
	ok(strlen(self.label) == 128, "a long label is cut");
	memmove(label + 1, label, sizeof(label) - 1);
	label[0] = 'a';
	label[sizeof(label) - 1] = '\0';
	owner_self(&self, label);
	ok(strlen(self.label) == 127, "between two characters");
	memset(self.host, 'h', sizeof(self.host) - 1);
	memset(self.user, 'u', sizeof(self.user) - 1);
	memset(self.boot, 'b', sizeof(self.boot) - 1);
	self.host[sizeof(self.host) - 1] = self.user[sizeof(self.user) - 1] =
		self.boot[sizeof(self.boot) - 1] = '\0';
	self.pid = 2147483647;
	self.start = self.space = UINT64_MAX;
	owner_write(&self, text);
	ok(strstr(text, self.label) != NULL, "the longest fits");
}

static void test_record(void)
{
	struct owner self;
	struct lock_request request = {
		.mode = LOCK_PERMITS, .permits = 7, .priority = -12, .self = &self};
	char mode[OWNER_RECORD_MODE], text[OWNER_RECORD_TEXT], who[OWNER_RECORD_SIZE];
	struct owner_record record;

	owner_self(&self, "make");
	owner_record_mode(&request, mode);
	ok(strcmp(mode, "p7") == 0, "the mode");
	owner_record_text(&request, text);
	owner_record_write(who, mode, INT64_C(1795232512345678), text);
	ok(strncmp(who, "P7|1795232512345678|host=", 25) == 0, "a holder's record");
	ok(owner_record_read(&record, who) && record.mode == LOCK_PERMITS && record.claimed,
		"is read");
	ok(record.moment == INT64_C(1795232512345678), "its moment");
	ok(record.priority == -12 && !record.detached, "its priority");
	ok(strcmp(record.owner.label, "make") == 0 && record.owner.pid == getpid(), "its party");
	ok(owner_record_read(&record, "x|5|label=a\tdetached=1") && !record.claimed &&
			record.detached && record.mode == LOCK_EXCLUSIVE &&
			strcmp(record.owner.label, "a") == 0,
		"a waiter's record, and a key that came later");
	ok(!record.held, "which holds nothing");
	ok(owner_record_read(&record, "x|5|label=a\theld=h:1:0 b\nh:1:0 c") &&
			strcmp(record.held, "h:1:0 b\nh:1:0 c") == 0 &&
			strcmp(record.owner.label, "a") == 0,
		"a waiter's that holds two");
	request = (struct lock_request){.detached = true,
		.priority = -1000,
		.ttl_ms = INT64_MAX,
		.at_least_ms = INT64_MAX,
		.self = &self};
	memset(self.label, 'l', sizeof(self.label) - 1);
	owner_record_text(&request, text);
	ok(strstr(text, "\tprio=-1000\tdetached=1\tttl=9223372036854775807"
			"\tleast=9223372036854775807") != NULL,
		"a detached holder's text");
	ok(owner_record_read(&record, "S|9|") && record.claimed && record.mode == LOCK_SHARED,
		"with no text");
}

static void test_hostile(void)
{
	static const char *const none[] = {
		"", "x", "x|", "x|5", "q|5|label=a", "|5|label=a", "5", "xx"};
	struct owner_record record;
	struct owner owner;
	char *large = malloc(1 << 20);

	ok(!owner_record_read(&record, NULL), "no record");
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		ok(!owner_record_read(&record, none[i]), none[i]);
	owner_read(&owner,
		"\t\t=\t==\tlabel\tlabel=\tpid=\tpid=-5\tstart=x\thost=\033]0;x\007\xC2\x9B");
	ok(strcmp(owner.host, "?]0;x??") == 0, "controls become question marks");
	ok(owner.label[0] == '\0' && owner.start == 0, "and what has no value is empty");
	if (large) {
		memset(large, 'y', (1 << 20) - 1);
		large[(1 << 20) - 1] = '\0';
		memcpy(large, "x|1|label=", 10);
		ok(owner_record_read(&record, large) && strlen(record.owner.label) == 128,
			"a megabyte of label");
		memset(large + 4, '\t', 1000);
		ok(owner_record_read(&record, large), "a thousand tabs");
	}
	free(large);
}

int main(void)
{
	test_self();
	test_near();
	test_cut();
	test_record();
	test_hostile();
	printf("1..%d\n", count);
	return failures > 0;
}
