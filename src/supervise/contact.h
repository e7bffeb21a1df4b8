/* Whether a waiter reaches the server that it was answered by, and what its user hears of that. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "base/failure.h"

/* Begins as zeros. */
struct contact {
	nanos lost_at; /* since when no request has come through; 0: it does */
	bool told;     /* the user knows */
};

/* A request has not come through. Says so once, if that goes on for a while. */
void contact_failed(struct contact *contact, const struct failure *failure);

/* The server has answered. Says so if the user was told of the contrary. */
void contact_made(struct contact *contact);
