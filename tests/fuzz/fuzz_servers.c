/*
 * Servers that answer anything, by every way that leads to them: one alone, the nodes of a Cluster,
 * Sentinels and the master that they name, a quorum. The first byte says which, the second what is
 * done; the rest is what they say on one connection after the other (world.h), to whomever that
 * leads.
 */
#include "acts.h"
#include "base/failure.h"
#include "fuzz.h"
#include "lock/services.h"
#include "net/server.h"
#include "world.h"

static const struct {
	uint8_t letter;
	const char *url;
} places[] = {
	{'u', "unix:///none"},
	{'c', "redis://node:7001"}, /* whether it is a Cluster is for the server to say */
	{'C', "redis://user:word@[::1]:7001"}, {'d', "redis://:word@node/3"},
	{'s', "redis+sentinel://h1,h2:26380/service"},
	{'S', "redis+sentinel://user:word@h1,h2,h3/service/2"}, {'q', "redis+quorum://h1,h2,h3"},
	{'Q', "redis+quorum://user:word@h1,[::2],h3:7000,h4,h5/2"},
	{'w', "redis+quorum://:word@h1,h2,h3"}, {'f', "redis+quorum://h1,h2,h3,h4"},
	{'m', "redis+quorum://"
	      "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,ba,bb,bc,bd,be,bf,bg,bh,"
	      "bi,bj,bk,bl,bm,bn,bo,bp,bq,br,bs,bt,bu,bv,bw,bx,by,bz,ca,cb,cc,cd,ce,cf,cg,ch,ci,cj,"
	      "ck,cl"}, /* as many as there may be */
};

#define PLACES (sizeof(places) / sizeof(places[0]))

static size_t find_place(uint8_t letter)
{
	for (size_t i = 0; i < PLACES; i++)
		if (places[i].letter == letter)
			return i;
	return letter % PLACES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct failure failure;
	struct server *server;

	if (size < 2 || size >= 65536)
		return 0;
	server = services_read_url(places[find_place(data[0])].url, &failure);
	MUST(server != NULL);
	world_begin(data + 2, size - 2, NULL);
	act(data[1], server);
	world_end();
	server_free(server);
	return 0;
}
