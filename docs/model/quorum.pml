/*
 * A lock on three independent servers, with fencing tokens: acquire.lua (a promise), confirm.lua and
 * renew.lua as clients run them on a quorum. Two clients make some attempts each, every attempt with
 * a token of its own. Servers are asked in any order, any request and any reply may be lost, and a
 * key may vanish at any moment: expired, evicted, or given back. Nothing is assumed about time
 * unless a switch says so.
 *
 * Checked wherever a client would start its command:
 *   unique   no fencing token was granted before
 *   order    it is above every token whose grant was complete before this attempt began
 *   alone    nobody else holds the lock (only with TIMELY)
 *
 * Sizes:
 *   R1, R2   attempts of each client
 *   TICKS    of the clock
 *
 * More of the world:
 *   AGAIN    who holds the lock renews it twice, and sets it again where it is missing
 *   TIMELY   no key vanishes while its owner's proof lasts, which counts from before the request
 *   AMNESIA  once, a server comes back without its memory
 * What holds then because of:
 *   CLOCK    no token is below the servers' clock, and that is past what the server forgot
 *   SPREAD   without a clock: the server forgets after a renewal that reached all three
 *   SETTLE   the server promises nothing until every proof of that moment is over
 * A condition left out, for the counterexample:
 *   NO_MAJORITY  one server's word is enough
 *   NO_OWNER     confirm does not ask whose the key is
 *   NO_BELOW     confirm does not compare the token with anything
 *   NO_PROMISE   it compares it with the counter, not with what the server promised. Matters for a
 *                promise that comes too late to be among those that the token was made from
 *   NO_RAISE     setting again does not raise the counter
 *   CLOCK_BACK   the clock may be behind what the server forgot
 *   MINORITY     a holder goes on though only one server has renewed
 */
#define N	   3
#define BIT(n)	   (1 << (n))
#define ALL	   7
#define MAX(a, b)  ((a) > (b) -> (a) : (b))

#ifdef NO_OWNER
#define OWNS(n) true
#else
#define OWNS(n) (owner[n] == ID)
#endif
#ifdef NO_BELOW
#define GOOD(n) true
#elif defined(NO_PROMISE)
#define GOOD(n) (fence[n] < T)
#else
#define GOOD(n) (promised[n] <= T)
#endif
#ifdef NO_MAJORITY
#define ENOUGH(count) (count >= 1)
#else
#define ENOUGH(count) (count >= 2)
#endif
#ifdef MINORITY
#define RENEWED(count) (count >= 1)
#else
#define RENEWED(count) (count >= 2)
#endif
#ifdef CLOCK
#define NEXT(n) MAX(fence[n] + 1, clock)
#else
#define NEXT(n) (fence[n] + 1)
#endif
#ifdef TIMELY
#define KEPT(n) (proof[OF(owner[n])] == owner[n] && (safe[OF(owner[n])] & BIT(n)))
#else
#define KEPT(n) false
#endif

#define ID	(2 * round + me) /* this attempt's token */
#define OF(id)	((id) & 1)	 /* whose it is */

byte owner[N]; /* the token of an attempt; 0: free */
byte fence[N]; /* the counter, which stays when the key goes */
byte promised[N]; /* the token that the owner was answered; goes with the key */
byte newest;   /* the greatest token of a complete grant */
bool used[16];
bool unique, order, alone;
bool holds[2]; /* a client's command runs */
#ifdef SPREAD
bool everywhere; /* the last renewal of one that holds reached all */
#endif
#ifdef TIMELY
byte proof[2]; /* the attempt whose proof lasts; 0: none */
byte safe[2];  /* the servers whose key outlives that proof */
#endif
#ifdef SETTLE
byte waits[N]; /* bit c: the server waits for the end of c's proof */
#endif
#ifdef CLOCK
byte clock;    /* the servers' */
#endif

/* One that was not tried yet, under CONDITION. */
#define PICK(condition) \
	if \
	:: !(tried & BIT(0)) && condition(0) -> n = 0 \
	:: !(tried & BIT(1)) && condition(1) -> n = 1 \
	:: !(tried & BIT(2)) && condition(2) -> n = 2 \
	fi; \
	tried = tried | BIT(n)

#ifdef SETTLE
#define PROMISES(n) (owner[n] == 0 && waits[n] == 0)
#else
#define PROMISES(n) (owner[n] == 0)
#endif
#define CONFIRMS(n)  (OWNS(n) && GOOD(n))
#define RENEWS(n)    (owner[n] == ID || owner[n] == 0 && fence[n] <= T)

inline prove()
{
#ifdef TIMELY
	proof[me] = ID;
	safe[me] = ALL
#else
	skip
#endif
}

inline no_proof()
{
#ifdef TIMELY
	proof[me] = 0;
	safe[me] = 0;
#endif
#ifdef SETTLE
	waits[0] = waits[0] & ~BIT(me);
	waits[1] = waits[1] & ~BIT(me);
	waits[2] = waits[2] & ~BIT(me);
#endif
	skip
}

inline grant()
{
	unique = !used[T];
	assert(unique);
	used[T] = true;
	order = T > before;
	assert(order);
	newest = MAX(newest, T);
#ifdef TIMELY
	alone = !holds[1 - me];
	assert(alone);
#endif
	holds[me] = true
}

/* Once, at as many servers as can be reached. */
inline renew()
{
	do
	:: atomic { PICK(RENEWS);
		if
		:: owner[n] == 0 -> owner[n] = ID; promised[n] = T
		:: else
		fi;
#ifndef NO_RAISE
		fence[n] = MAX(fence[n], T);
#endif
#ifdef TIMELY
		safe[me] = safe[me] | BIT(n);
#endif
		count++; n = 0 }
	:: atomic {
#ifdef TIMELY
		safe[me] = tried;
#endif
		holds[me] = RENEWED(count);
#ifdef SPREAD
		everywhere = (tried == ALL);
#endif
		tried = 0; count = 0; break }
	od
}

proctype client(bit me; byte attempts)
{
	byte n, tried, count, T, before, round;

	do
	:: atomic { round < attempts -> round++; before = newest; prove() }
		do
		:: atomic { PICK(PROMISES);
			owner[n] = ID; promised[n] = NEXT(n);
			if
			:: count++; T = MAX(T, promised[n])
			:: true /* its reply is lost */
			fi;
			n = 0 }
		:: break
		od;
		if
		:: atomic { ENOUGH(count) -> count = 0; tried = 0 }
			/* all are told: those as well whose reply was lost */
			do
			:: atomic { PICK(CONFIRMS);
				fence[n] = T;
				if
				:: count++
				:: true
				fi;
				n = 0 }
			:: break
			od;
			if
			:: atomic { ENOUGH(count) -> count = 0; tried = 0; grant() }
#ifdef AGAIN
				renew();
				if
				:: holds[me] -> renew()
				:: true
				fi;
#endif
				skip
			:: else
			fi
		:: else
		fi;
		/* what is left is given back, or expires */
		atomic {
#ifdef SPREAD
			everywhere = everywhere && !holds[me];
#endif
			holds[me] = false; no_proof(); tried = 0; count = 0; T = 0; before = 0 }
	:: round == attempts -> break
	od
}

#define VANISHES(n) (owner[n] != 0 && !KEPT(n))

active proctype expiry()
{
end:
	do
	:: d_step { VANISHES(0) -> owner[0] = 0; promised[0] = 0 }
	:: d_step { VANISHES(1) -> owner[1] = 0; promised[1] = 0 }
	:: d_step { VANISHES(2) -> owner[2] = 0; promised[2] = 0 }
	od
}

#ifdef CLOCK
active proctype ticks()
{
end:
	do
	:: clock < TICKS -> clock++
	od
}
#endif

#ifdef AMNESIA
#if defined(CLOCK) && !defined(CLOCK_BACK)
#define FORGETS(n) (clock > fence[n])
#elif defined(SPREAD)
#define FORGETS(n) everywhere
#else
#define FORGETS(n) true
#endif

active proctype amnesia()
{
	byte n;

end:
	atomic {
		if
		:: FORGETS(0) -> n = 0
		:: FORGETS(1) -> n = 1
		:: FORGETS(2) -> n = 2
		fi;
		owner[n] = 0;
		fence[n] = 0;
		promised[n] = 0;
#ifdef SETTLE
		waits[n] = (proof[0] != 0 -> 1 : 0) | (proof[1] != 0 -> 2 : 0);
#endif
		n = 0
	}
}
#endif

init { atomic { run client(0, R1); run client(1, R2) } }
