/*
 * How long a holder may believe that the lock is its own (lease.h): two clients, one server, messages
 * that take any time, and clocks. Time passes in ticks, and only when nobody has something to do
 * that cannot wait: a timer fires when it is due (which is an assumption about the machine).
 *
 * Checked:
 *   alone     no two commands run
 *
 * Sizes:
 *   TTL      ticks that the server keeps the lock for
 *   STOP     stopping a command takes less than that
 *   DRIFT    ticks that a client's clock may lose in each TTL; the margin is as large
 * A condition left out, for the counterexample:
 *   FROM_REPLY  the proof counts from the reply, not from before the request
 *   NO_MARGIN   no allowance for clocks that run at different rates
 *   NO_RESERVE  stopping begins when the proof ends, not so that it has ended by then
 *   NO_LOOK     the command starts whenever the reply comes
 *   NO_OWNER    a renewal or a release does not ask whose the lock is
 */
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN DRIFT
#endif
#ifdef NO_RESERVE
#define RESERVE 0
#else
#define RESERVE STOP
#endif
#ifdef FROM_REPLY
#define AGE(c) 0
#else
#define AGE(c) age[c]
#endif

#define NOBODY 2

mtype = { idle, runs, stops }; /* a client's command */
mtype = { none, asked, yes, no }; /* its request: on the way there, or the answer on the way back */

byte owner = NOBODY;
byte left;	/* the server's ticks until the lock is free */

mtype command[2] = idle;
mtype request[2] = none;
byte age[2];	/* since the request left, by the client's clock */
byte proof[2];	/* ticks left, by the client's clock */
byte lost[2];	/* ticks that its clock has lost since the request left */
byte older[2];	/* and before that, since the request that the proof is from */
byte stop[2];	/* ticks that its command may still run for */
bool alone;

#define NEW(c)	(TTL - MARGIN - AGE(c)) /* the proof that an answer gives */
#define GOOD(c) (AGE(c) + MARGIN < TTL && NEW(c) > RESERVE)

inline check()
{
	alone = command[0] == idle || command[1] == idle;
	assert(alone)
}

inline forget(c)
{
	request[c] = none;
	age[c] = 0;
	lost[c] = 0
}

inline give_back(c)
{
	if
#ifdef NO_OWNER
	:: true -> owner = NOBODY; left = 0
#else
	:: owner == c -> owner = NOBODY; left = 0
	:: else
#endif
	fi
}

inline begin_stop(c)
{
	command[c] = stops;
	stop[c] = STOP
}

inline rest(c)
{
	command[c] = idle;
	proof[c] = 0;
	older[c] = 0;
	stop[c] = 0;
	forget(c)
}

proctype client(bit c)
{
end:
	do
	:: d_step { request[c] == none && command[c] != stops -> request[c] = asked }
	/* the server */
	:: d_step { request[c] == asked && (owner == NOBODY || owner == c) ->
		owner = c; left = TTL; request[c] = yes }
#ifdef NO_OWNER
	:: d_step { request[c] == asked && owner == 1 - c && command[c] == runs -> left = TTL; request[c] = yes }
#endif
	:: d_step { request[c] == asked && owner == 1 - c -> request[c] = no }
	/* its answer */
	:: atomic { request[c] == yes ->
		if
#ifdef NO_LOOK
		:: command[c] == idle ->
#else
		:: command[c] == idle && GOOD(c) ->
#endif
			command[c] = runs; check(); proof[c] = (GOOD(c) -> NEW(c) : RESERVE); older[c] = lost[c]
		:: command[c] == runs && GOOD(c) && NEW(c) >= proof[c] -> proof[c] = NEW(c); older[c] = lost[c]
		:: command[c] == idle -> give_back(c)
		:: else
		fi;
		forget(c) }
	:: atomic { request[c] == no ->
		if
		:: command[c] == runs -> begin_stop(c)
		:: else
		fi;
		forget(c) }
	/* the connection is gone, and with it a request that has not arrived */
	:: d_step { request[c] != none -> forget(c) }
	/* the timer; the command's end */
	:: d_step { command[c] == runs && proof[c] <= RESERVE -> begin_stop(c) }
	:: d_step { command[c] != idle -> rest(c); give_back(c) }
	od
}

#define DUE(c) (command[c] == runs && proof[c] <= RESERVE || command[c] == stops && stop[c] <= 1)

#define LESS(n) (n > 0 -> n - 1 : 0)
#define MORE(n) (n < TTL -> n + 1 : TTL)

inline count(c)
{
	age[c] = (request[c] != none -> MORE(age[c]) : 0);
	proof[c] = LESS(proof[c])
}

/* A clock may miss a tick, but no more than DRIFT of them since any request that counts. */
inline pass(c)
{
	if
	:: count(c)
	:: (request[c] == none || lost[c] < DRIFT) && (command[c] == idle || older[c] < DRIFT) ->
		lost[c] = (request[c] == none -> 0 : lost[c] + 1);
		older[c] = (command[c] == idle -> 0 : older[c] + 1)
	fi
}

active proctype time()
{
end:
	do
	:: atomic { !DUE(0) && !DUE(1) ->
		left = LESS(left);
		if
		:: left == 0 -> owner = NOBODY
		:: else
		fi;
		stop[0] = LESS(stop[0]);
		stop[1] = LESS(stop[1]);
		pass(0);
		pass(1) }
	od
}

init { atomic { run client(0); run client(1) } }
