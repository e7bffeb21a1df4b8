#include "supervise/contact.h"

#include "base/message.h"

#define PATIENCE NANOS_PER_SEC /* a failover that was prepared is over by then */

void contact_failed(struct contact *contact, const struct failure *failure)
{
	if (contact->lost_at == 0)
		contact->lost_at = clock_now();
	if (contact->told || clock_now() - contact->lost_at < PATIENCE)
		return;
	contact->told = true;
	message_say(MESSAGE_WARNING, "the server is lost, and is tried again and again: %s",
		failure->text);
}

void contact_made(struct contact *contact)
{
	if (contact->told)
		message_say(MESSAGE_WARNING, "the server answers again");
	*contact = (struct contact){0};
}
