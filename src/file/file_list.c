#include "file/file_list.h"
#include "file/file_lock.h"
static void *l_open(const struct server *s, const struct lock_query *q, struct failure *f){(void)s;(void)q;failure_set(f,EXIT_SYSTEM,"todo");return NULL;}
static bool l_look(void *state, void (*show)(const struct lock_view *view, void *context), void *context, struct deadline deadline, struct failure *failure){(void)state;(void)show;(void)context;(void)deadline;(void)failure;return false;}
static void l_close(void*s){(void)s;}
const struct lock_list_ops file_list_ops={l_open,l_look,l_close};
bool file_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure){(void)server;(void)request;(void)take;(void)context;return failure_set(failure,EXIT_SYSTEM,"todo");}
bool file_circle_look(struct file_lock *f, struct failure *failure){(void)failure;f->wait.circle_at=NANOS_NEVER;return true;}
