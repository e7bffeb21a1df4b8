-- Whatever the role's defaults are: no statement is cut off, no idle session ended, a waiter on a dead host
-- leaves the queue after 11 s, and each statement sees what is there. transaction_timeout is PostgreSQL 17's.
SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '5s', false),
  set_config('idle_in_transaction_session_timeout', '0', false), set_config('idle_session_timeout', '0', false),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
    WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('default_transaction_read_only', 'off', false), set_config('search_path', 'pg_catalog, pg_temp', false),
  set_config('plan_cache_mode', 'force_generic_plan', false), set_config('tcp_keepalives_idle', '5', false),
  set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '11s', false),
  CASE WHEN current_setting('transaction_timeout', true) <> '' THEN set_config('transaction_timeout', '0', false) END,
  pg_backend_pid() AS pid
