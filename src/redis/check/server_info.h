/* What a server says of itself: INFO, and the settings that CONFIG GET gives away. */
#pragma once

#include <stdint.h>

#define SERVER_INFO_SIZE 128
#define SERVER_INFO_MOST (INT64_C(1) << 53) /* of a number: seconds, bytes */

struct reply;

/* Begins as zeros. */
struct server_info {
	char *text; /* owned; lines "key:value"; a setting's key is "config." and its name */
};

/* Adds what INFO answered, or CONFIG GET with one setting. Other replies add nothing. */
void server_info_add_info(struct server_info *info, const struct reply *reply);
void server_info_add_setting(struct server_info *info, const struct reply *reply);
void server_info_free(struct server_info *info);

/* The value, cut to fit and made printable. NULL: not known. */
const char *server_info_find(
	const struct server_info *info, const char *key, char value[static SERVER_INFO_SIZE]);

/* The same as a number, up to SERVER_INFO_MOST; -1: not known, or none. */
int64_t server_info_number(const struct server_info *info, const char *key);
