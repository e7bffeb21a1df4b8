/*
 * The queue of one server: acquire.lua, release.lua, verify.lua with hand_on of handing.lua, and the
 * loop of a waiter (wait.c) with its one connection. W clients come once each; a script is one step,
 * and between two steps anything may happen to a client.
 *
 * Checked:
 *   alone     whoever is granted the lock is the only one whose command runs
 *   fair      the lock is put into the name of the one who came first, of those in the queue
 *   progress  no living client waits for ever: no state in which all that is left is to wait (Spin
 *             calls that an invalid end state). A timer fires only where it is named below, so what
 *             this shows is that messages arrive, not that somebody looks now and then
 *
 * Sizes:
 *   W        clients: 3 or 4
 *
 * More of the world:
 *   KILLS    how many clients die, at any moment, and with them what was sent to their socket. Where
 *            a holder is dead, all that wait know when its lock runs out. Where one is dead who was
 *            only handed it, those do who were told to look, and who is first
 *   SLOW     how often a living client is too slow: its lease, its claim or its lock runs out
 *   LISTEN   every client looks every 20 s, whatever it knows (wait.c does)
 * A condition left out, for the counterexample:
 *   NO_LIST      a message for somebody who does not listen at that moment is lost
 *   NO_TELL      the one who comes next is not told to look for himself
 *   NO_VERIFY    the giver does not see to it that what he gave is claimed
 *   NO_CLAIM     "go" is taken for a grant
 *   NO_TICKET    who claims too late, or was passed over, queues anew
 *   NO_RECORD    who was passed over goes on listening
 *   NO_TURN      a newcomer takes a free lock though others wait
 *   NO_OWNER     a release does not ask whose the lock is
 */
#ifndef KILLS
#define KILLS 0
#endif
#ifndef SLOW
#define SLOW 0
#endif

#define NOBODY W
#define NONE  0
#define SHORT 1 /* the lease of one that may not be listening: LEASE in prelude.lua */
#define LONG  2 /* that of one that listens */
#define GO    1
#define LOOK  2

/* The server. */
byte owner = NOBODY; /* in whose name the lock is */
bool claimed;	     /* the owner has come for it */
bool ran_out;	     /* it was the owner's until its expiry */
bool queued[W];
byte ticket[W];	     /* 0: none yet */
byte tickets;	     /* given out so far */
byte lease[W];
byte first[W];	     /* the list of messages for a client: at most two are of interest */
byte second[W];
bool blocked[W];     /* in BLPOP; so for a while after the client's death, until the server knows */

/* The clients. */
byte came;	     /* how many have: in the order of their numbers, as they are all alike */
byte inbox[W];	     /* a message on its way, or in the client's socket */
bool timer[W];	     /* looks when the lock has run out */
bool holds[W];
bool dead[W];
bool gone[W];	     /* has ended, dead or not */
byte kills;
byte slow;
bool alone, fair;

inline push(w, message)
{
	if
	:: blocked[w] -> blocked[w] = false; inbox[w] = (dead[w] -> NONE : message)
	:: !blocked[w] ->
#ifndef NO_LIST
		if
		:: first[w] == NONE -> first[w] = message
		:: else -> second[w] = message
		fi
#else
		skip
#endif
	fi
}

/* The least ticket in the queue; NOBODY. */
inline find_head()
{
	head = NOBODY;
	v = 0;
	do
	:: v < W ->
		if
		:: queued[v] && (head == NOBODY || ticket[v] < ticket[head]) -> head = v
		:: else
		fi;
		v++
	:: else -> break
	od;
	v = 0
}

inline check_turn(w)
{
	fair = true;
	v = 0;
	do
	:: v < W -> fair = fair && !(v != w && queued[v] && lease[v] != NONE && v < w); v++
	:: else -> break
	od;
	v = 0;
	assert(fair)
}

/* Sets handed to the one who got it, or NOBODY. */
inline hand_on(tells)
{
	handed = NOBODY;
	find_head();
	do
	:: head != NOBODY ->
		if
		:: lease[head] == NONE -> queued[head] = false; find_head()
		:: else -> check_turn(head); queued[head] = false; break
		fi
	:: else -> break
	od;
	if
	:: head != NOBODY ->
		owner = head;
		claimed = false;
		ran_out = false;
		if
		:: head != me -> handed = head; push(head, GO)
		:: else
		fi;
		head = NOBODY;
#ifndef NO_TELL
		if
		:: tells && handed != NOBODY ->
			find_head();
			if
			:: head != NOBODY -> push(head, LOOK);
				if
				:: lease[head] != NONE -> lease[head] = SHORT
				:: else
				fi
			:: else
			fi;
			head = NOBODY
		:: else
		fi
#endif
	:: else
	fi
}

inline grant()
{
	claimed = true;
	ran_out = false;
	queued[me] = false;
	first[me] = NONE;
	second[me] = NONE;
	lease[me] = LONG;
	begin()
}

inline begin()
{
	v = 0;
	alone = true;
	do
	:: v < W -> alone = alone && !holds[v]; v++
	:: else -> break
	od;
	v = 0;
	assert(alone);
	holds[me] = true;
	granted = true
}

/* acquire.lua: ends with the lock granted, or in the queue. */
inline acquire()
{
	handed = NOBODY;
	find_head();
	if
	:: owner == me -> head = NOBODY; grant()
#ifdef NO_TURN
	:: owner == NOBODY && ticket[me] == 0 ->
#else
	:: owner == NOBODY && head == NOBODY ->
#endif
		head = NOBODY; check_turn(me); owner = me; grant()
	:: else ->
		head = NOBODY;
		if
		:: ticket[me] == 0 -> tickets++; ticket[me] = tickets
		:: else ->
#ifdef NO_TICKET
			if
			:: !queued[me] -> tickets++; ticket[me] = tickets
			:: else
			fi
#else
			skip
#endif
		fi;
		lease[me] = SHORT;
		queued[me] = true;
		if
		:: owner == NOBODY ->
			hand_on(true);
			if
			:: owner == me -> grant()
			:: else
			fi
		:: else
		fi;
		find_head();
		timer[me] = (head == me || handed != NOBODY);
		head = NOBODY
	fi
}

/* PEXPIRE and BLPOP, in one write. */
inline listen()
{
	if
#ifdef NO_RECORD
	:: false -> skip
#else
	:: lease[me] == NONE -> passed = true
#endif
	:: else ->
		if
		:: lease[me] != NONE -> lease[me] = LONG
		:: else
		fi;
		if
		:: first[me] != NONE -> inbox[me] = first[me]; first[me] = second[me]; second[me] = NONE
		:: else -> blocked[me] = true
		fi
	fi
}

inline release()
{
	if
#ifdef NO_OWNER
	:: true -> owner = NOBODY
#else
	:: owner == me -> owner = NOBODY
	:: else
#endif
	fi;
	claimed = claimed && owner != NOBODY;
	lease[me] = NONE;
	queued[me] = false;
	first[me] = NONE;
	second[me] = NONE;
	if
	:: owner == NOBODY -> hand_on(true)
	:: else -> handed = NOBODY
	fi
}

/* An unread message of one that said he listens, or that was told to look and has not for a while. */
#define UNREAD(w) (first[w] != NONE && (lease[w] == LONG || first[w] == LOOK && lease[w] == SHORT && dead[w]))
#define WAITS(w)  (owner == w && !claimed && lease[w] != NONE)

/* verify.lua; nothing to wait for where it would find things as they are. */
inline verify()
{
	if
	:: WAITS(handed) && UNREAD(handed) ->
		owner = NOBODY;
		first[handed] = NONE;
		second[handed] = NONE;
		lease[handed] = NONE
	:: else
	fi;
	if
	:: owner == NOBODY -> hand_on(false)
	:: else -> handed = NOBODY
	fi
}

#ifdef LISTEN
#define LOOKS (blocked[me] && (owner == NOBODY || !queued[me]))
#elif KILLS || SLOW
#define LOOKS (blocked[me] && (timer[me] && (owner == NOBODY || !queued[me]) || owner == NOBODY && ran_out))
#else
#define LOOKS false
#endif

proctype client(byte me)
{
	byte head, handed, v;
	bool passed, granted;

	{
		atomic { came == me -> came++; acquire() }
		do
		:: granted -> break
		:: !granted && !blocked[me] && inbox[me] == NONE -> atomic {
			listen();
			if
			:: passed -> passed = false; acquire()
			:: else
			fi }
		:: atomic { inbox[me] == GO -> inbox[me] = NONE;
#ifdef NO_CLAIM
			begin() }
#else
			acquire() }
#endif
		:: atomic { inbox[me] == LOOK -> inbox[me] = NONE; timer[me] = true }
		:: atomic { LOOKS -> blocked[me] = false; acquire() }
		od;
		holds[me] = false;
		atomic { !holds[me]; release() }
#ifndef NO_VERIFY
		do
		:: handed == NOBODY -> break
		:: atomic { handed != NOBODY && (!WAITS(handed) || UNREAD(handed)) -> verify() }
		od
#endif
	} unless { dead[me] };
	atomic { gone[me] = true; handed = 0; head = 0; v = 0; granted = false; timer[me] = false }
}

#if KILLS
active proctype death()
{
	byte w;

end:
	do
	:: kills < KILLS ->
		atomic {
			if
			:: w = 0
			:: w = 1
			:: w = 2
#if W > 3
			:: w = 3
#endif
			fi;
			if
			:: dead[w] || gone[w] || w >= came
			:: else -> dead[w] = true; holds[w] = false; inbox[w] = NONE; timer[w] = false; kills++
			fi;
			w = 0
		}
	od
}
#endif

#define OVER(w) \
	:: d_step { dead[w] && blocked[w] -> blocked[w] = false } \
	:: d_step { dead[w] && lease[w] != NONE && owner != w -> lease[w] = NONE } \
	:: d_step { dead[w] && owner == w -> owner = NOBODY; ran_out = claimed; claimed = false; lease[w] = NONE }

#define LATE(w) \
	:: d_step { slow < SLOW && !dead[w] && queued[w] && !blocked[w] && lease[w] != NONE -> \
		slow++; lease[w] = NONE } \
	:: d_step { slow < SLOW && !dead[w] && owner == w -> \
		slow++; owner = NOBODY; ran_out = claimed; claimed = false; holds[w] = false; lease[w] = NONE }

/* What the server does by itself. */
active proctype server()
{
end:
	do
	:: false
#if KILLS
	OVER(0)
	OVER(1)
	OVER(2)
#if W > 3
	OVER(3)
#endif
#endif
#if SLOW
	LATE(0)
	LATE(1)
	LATE(2)
#if W > 3
	LATE(3)
#endif
#endif
	od
}

init {
	atomic {
		run client(0); run client(1); run client(2);
#if W > 3
		run client(3)
#endif
	}
}
