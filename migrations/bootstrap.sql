-- Waybill's roles and database, on a server that somebody administers. Run it once, and again whenever you like: it
-- creates what is missing and puts the rights back as they should be. It needs no superuser: a role with CREATEROLE and
-- CREATEDB is enough, such as the administrator that managed services hand out.
--
--   psql "postgres://admin@db.example.com/postgres" -v database=waybill \
--        -v owner_password= -v app_password= -v sealer_password= -f migrations/bootstrap.sql
--
-- Every variable must be given. An empty password leaves the role's as it is; set it afterwards with
--   \password waybill_owner        \password waybill_app        \password waybill_sealer
-- which keeps it out of the process list, the shell's history and the server's log.
--
-- Then set MIGRATION_DATABASE_URL (waybill_owner), DATABASE_URL (waybill_app) and SEALER_DATABASE_URL (waybill_sealer),
-- and run "npx waybill migrate".
--
-- Roles belong to the whole server: two Waybill databases on one server share them.
--
-- Backups: every table of a tenant has FORCE ROW LEVEL SECURITY, so pg_dump as one of these roles fails or misses rows.
-- Dump as a superuser, or as a role with BYPASSRLS; granting that takes a superuser, so it is not done here.
--
-- The service runs this very file on its embedded server (src/database/bootstrap.ts). It understands a small part of
-- psql only: variables as :'name' and :"name", \gexec and \connect :"database".

\set ON_ERROR_STOP on

-- @section roles

-- Two runs at once would trip over each other's "already exists". (Should they start from different databases, they
-- don't see each other's lock; then run the one that failed again.)
DO $$ BEGIN PERFORM pg_advisory_lock(hashtext('waybill bootstrap')); END $$;

-- Owns the business schema and runs migrations. NOINHERIT: it acts as waybill_audit only after SET ROLE, so that no
-- slip of a migration or of a person touches the audit trail.
SELECT 'CREATE ROLE waybill_owner LOGIN NOINHERIT'
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'waybill_owner') \gexec

-- Owns the audit schema. Nobody logs in as it.
SELECT 'CREATE ROLE waybill_audit NOLOGIN'
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'waybill_audit') \gexec

-- What requests run as.
SELECT 'CREATE ROLE waybill_app LOGIN'
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'waybill_app') \gexec

-- Signs events. It reads all tenants through policies, not by BYPASSRLS.
SELECT 'CREATE ROLE waybill_sealer LOGIN'
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'waybill_sealer') \gexec

-- Roles that somebody made beforehand, with powers that would undo the whole arrangement.
DO $$
DECLARE
  mighty text;
BEGIN
  SELECT string_agg(rolname, ', ' ORDER BY rolname) INTO mighty
    FROM pg_catalog.pg_roles
   WHERE rolname IN ('waybill_owner', 'waybill_audit', 'waybill_app', 'waybill_sealer')
     AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication);
  IF mighty IS NOT NULL THEN
    RAISE EXCEPTION 'These roles hold SUPERUSER, BYPASSRLS, CREATEROLE or REPLICATION and must not: %', mighty
      USING HINT = 'Take it away: ALTER ROLE … NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOREPLICATION.';
  END IF;
  SELECT string_agg(member.rolname || ' in ' || granted.rolname, ', ') INTO mighty
    FROM pg_catalog.pg_auth_members AS m
    JOIN pg_catalog.pg_roles AS member ON member.oid = m.member
    JOIN pg_catalog.pg_roles AS granted ON granted.oid = m.roleid
   WHERE member.rolname IN ('waybill_app', 'waybill_sealer');
  IF mighty IS NOT NULL THEN
    RAISE EXCEPTION 'The service''s roles must be members of no other role, but: %', mighty
      USING HINT = 'Take it away: REVOKE … FROM ….';
  END IF;
END
$$;

ALTER ROLE waybill_owner LOGIN NOINHERIT;
ALTER ROLE waybill_audit NOLOGIN;
ALTER ROLE waybill_app LOGIN;
ALTER ROLE waybill_sealer LOGIN;

-- Some connections stay free for the owner, the sealer and an administrator, whatever requests do. Whoever has set a limit
-- knows better.
SELECT format('ALTER ROLE waybill_app CONNECTION LIMIT %s', current_setting('max_connections')::int * 9 / 10)
 WHERE (SELECT rolconnlimit = -1 FROM pg_catalog.pg_roles WHERE rolname = 'waybill_app') \gexec

-- NOINHERIT decides this on 15. From 16 on each membership carries the option itself, set when it was first granted.
SELECT CASE
         WHEN current_setting('server_version_num')::int >= 160000
         THEN 'GRANT waybill_audit TO waybill_owner WITH ADMIN FALSE, INHERIT FALSE, SET TRUE'
         ELSE 'GRANT waybill_audit TO waybill_owner'
       END
 WHERE NOT pg_has_role('waybill_owner', 'waybill_audit', 'MEMBER')
    OR pg_has_role('waybill_owner', 'waybill_audit', 'USAGE') \gexec

SELECT format('ALTER ROLE waybill_owner PASSWORD %L', :'owner_password') WHERE :'owner_password' <> '' \gexec
SELECT format('ALTER ROLE waybill_app PASSWORD %L', :'app_password') WHERE :'app_password' <> '' \gexec
SELECT format('ALTER ROLE waybill_sealer PASSWORD %L', :'sealer_password') WHERE :'sealer_password' <> '' \gexec

-- @section database

-- Who isn't superuser gives a database to a role only as a member of it; the membership is taken back at the end.
SELECT 'GRANT waybill_owner TO CURRENT_USER'
 WHERE NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) \gexec

SELECT format('CREATE DATABASE %I OWNER waybill_owner ENCODING ''UTF8'' TEMPLATE template0', :'database')
 WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = :'database') \gexec

SELECT format('ALTER DATABASE %I OWNER TO waybill_owner', datname)
  FROM pg_catalog.pg_database
 WHERE datname = :'database' AND datdba <> 'waybill_owner'::pg_catalog.regrole \gexec

-- @section database-rights
-- Rights on a database itself aren't copied to databases that are cloned from it, so tests run this section for each.

SET ROLE waybill_owner;
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"database" TO waybill_app, waybill_sealer;
RESET ROLE;

-- @section schema-rights

\connect :"database"

-- The default since PostgreSQL 15, but not in a database that was upgraded from an older one.
SET ROLE pg_database_owner;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
RESET ROLE;

SELECT 'REVOKE waybill_owner FROM CURRENT_USER'
 WHERE NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) \gexec
