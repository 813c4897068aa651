-- +goose Up
CREATE TABLE weir_journals (
    journal  VARCHAR(64) NOT NULL PRIMARY KEY,
    origin   INT NOT NULL UNIQUE,
    slot     INT NOT NULL,
    position LONGBLOB,
    message  BIGINT NOT NULL DEFAULT 0,
    as_of    BIGINT NOT NULL DEFAULT 0,
    rolled   INT NOT NULL DEFAULT 0,
    since    INT NOT NULL DEFAULT 0,
    token    BIGINT NOT NULL DEFAULT 0,
    holder   VARCHAR(255) NOT NULL DEFAULT '',
    until    BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;
CREATE TABLE weir_origins (
    origin   INT NOT NULL PRIMARY KEY,
    journal  VARCHAR(64) NOT NULL,
    complete INT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE weir_hours (
    day    INT NOT NULL,
    `key`  VARBINARY(1028) NOT NULL,
    slot   BIGINT NOT NULL,
    origin INT NOT NULL,
    n      BIGINT NOT NULL,
    doubt  BIGINT NOT NULL,
    upto   BIGINT NOT NULL,
    PRIMARY KEY (day, `key`, slot, origin)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE weir_days (
    `key`  VARBINARY(1028) NOT NULL,
    day    INT NOT NULL,
    origin INT NOT NULL,
    n      BIGINT NOT NULL,
    doubt  BIGINT NOT NULL,
    upto   BIGINT NOT NULL,
    PRIMARY KEY (`key`, day, origin)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE weir_gaps (
    journal VARCHAR(64) NOT NULL,
    noted   BIGINT NOT NULL,
    first   BIGINT NOT NULL,
    last    BIGINT NOT NULL,
    why     TEXT NOT NULL
) ENGINE = InnoDB;
CREATE VIEW weir_hourly (`key`, hour, hits, doubt) AS
    SELECT CONVERT(h.`key` USING utf8mb4), TIMESTAMPADD(SECOND, h.slot, '1970-01-01'), sum(h.n), sum(h.doubt)
    FROM weir_hours h JOIN weir_origins o ON o.origin = h.origin AND o.complete = 1
    GROUP BY h.`key`, h.slot;
CREATE VIEW weir_daily (`key`, day, hits, doubt) AS
    SELECT CONVERT(`key` USING utf8mb4), DATE_ADD(DATE '1970-01-01', INTERVAL day DAY), sum(n), sum(doubt) FROM (
        SELECT d.`key`, d.day, d.n, d.doubt
        FROM weir_days d JOIN weir_origins o ON o.origin = d.origin AND o.complete = 1
        UNION ALL
        SELECT h.`key`, h.day, h.n, h.doubt
        FROM weir_hours h JOIN weir_origins o ON o.origin = h.origin AND o.complete = 1
        JOIN weir_journals j ON j.journal = o.journal WHERE h.day >= j.rolled
    ) AS both_tables GROUP BY `key`, day;

-- +goose Down
DROP VIEW weir_daily;
DROP VIEW weir_hourly;
DROP TABLE weir_gaps;
DROP TABLE weir_days;
DROP TABLE weir_hours;
DROP TABLE weir_origins;
DROP TABLE weir_journals;
