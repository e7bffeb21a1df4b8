-- The format of what is kept (lock/service.h): no schema, or a table without a comment, is no number. A fresh session
-- takes longer for it than for anything else, so a lock that nobody has is taken without it.
SELECT pg_backend_pid() AS pid,
  (SELECT substring(obj_description(c.oid, 'pg_class') FROM '^dlock format ([0-9]+)')
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'dlock' AND relname = 'lock') AS format
