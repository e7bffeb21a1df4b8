-- The resource's side of a fencing token in PostgreSQL 9.5 or newer. The database itself refuses the
-- work of a holder that has lost its lock without knowing.
--
--	dlock orders sh -c 'psql -1 -v ON_ERROR_STOP=1 -v resource=orders -v token="$DLOCK_FENCE" \
--		-f fence.sql -f work.sql'
--
-- Both files are one transaction (-1). The statement below locks the row of the resource until its
-- end, so others wait, and the token is on record exactly when the work is. A stale token ends in
-- the error
--
--	invalid input syntax for type bigint: "the fencing token 41 is stale"
--
-- with nothing changed, and psql ends with 3. In a program, run the INSERT alone first in each
-- transaction, with parameters for resource and token: if no row comes back, roll back.
--
-- Once, beforehand:
--
--	CREATE TABLE fence (resource text PRIMARY KEY, token bigint NOT NULL);

WITH passed AS (
	INSERT INTO fence AS seen (resource, token) VALUES (:'resource', :token)
	ON CONFLICT (resource) DO UPDATE SET token = excluded.token
		WHERE seen.token <= excluded.token
	RETURNING token
)
SELECT coalesce((SELECT token::text FROM passed),
	'the fencing token ' || :'token' || ' is stale')::bigint AS fencing_token;
