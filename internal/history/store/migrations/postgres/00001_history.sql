-- +goose Up
CREATE TABLE weir_journals (
    journal  TEXT NOT NULL PRIMARY KEY,
    origin   INTEGER NOT NULL UNIQUE,
    slot     INTEGER NOT NULL,
    position BYTEA,
    message  BIGINT NOT NULL DEFAULT 0,
    as_of    BIGINT NOT NULL DEFAULT 0,
    rolled   INTEGER NOT NULL DEFAULT 0,
    since    INTEGER NOT NULL DEFAULT 0,
    token    BIGINT NOT NULL DEFAULT 0,
    holder   TEXT NOT NULL DEFAULT '',
    until    BIGINT NOT NULL DEFAULT 0
);
CREATE TABLE weir_origins (
    origin   INTEGER NOT NULL PRIMARY KEY,
    journal  TEXT NOT NULL,
    complete INTEGER NOT NULL
);
CREATE TABLE weir_hours (
    day    INTEGER NOT NULL,
    key    TEXT COLLATE "C" NOT NULL,
    slot   BIGINT NOT NULL,
    origin INTEGER NOT NULL,
    n      BIGINT NOT NULL,
    doubt  BIGINT NOT NULL,
    upto   BIGINT NOT NULL,
    PRIMARY KEY (day, key, slot, origin)
) WITH (fillfactor = 80);
CREATE TABLE weir_days (
    key    TEXT COLLATE "C" NOT NULL,
    day    INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    n      BIGINT NOT NULL,
    doubt  BIGINT NOT NULL,
    upto   BIGINT NOT NULL,
    PRIMARY KEY (key, day, origin)
);
CREATE TABLE weir_gaps (
    journal TEXT NOT NULL,
    noted   BIGINT NOT NULL,
    first   BIGINT NOT NULL,
    last    BIGINT NOT NULL,
    why     TEXT NOT NULL
);
CREATE VIEW weir_hourly (key, hour, hits, doubt) AS
    SELECT h.key, to_timestamp(h.slot), sum(h.n), sum(h.doubt)
    FROM weir_hours h JOIN weir_origins o ON o.origin = h.origin AND o.complete = 1
    GROUP BY h.key, h.slot;
CREATE VIEW weir_daily (key, day, hits, doubt) AS
    SELECT key, DATE '1970-01-01' + day, sum(n), sum(doubt) FROM (
        SELECT d.key, d.day, d.n, d.doubt
        FROM weir_days d JOIN weir_origins o ON o.origin = d.origin AND o.complete = 1
        UNION ALL
        SELECT h.key, h.day, h.n, h.doubt
        FROM weir_hours h JOIN weir_origins o ON o.origin = h.origin AND o.complete = 1
        JOIN weir_journals j ON j.journal = o.journal WHERE h.day >= j.rolled
    ) AS both_tables GROUP BY key, day;

-- +goose Down
DROP VIEW weir_daily;
DROP VIEW weir_hourly;
DROP TABLE weir_gaps;
DROP TABLE weir_days;
DROP TABLE weir_hours;
DROP TABLE weir_origins;
DROP TABLE weir_journals;
