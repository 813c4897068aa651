-- +goose Up
CREATE TABLE weir_sums (
    span   INTEGER NOT NULL,
    key    TEXT NOT NULL,
    origin INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    doubt  INTEGER NOT NULL,
    upto   INTEGER NOT NULL,
    PRIMARY KEY (span, key, origin)
) WITHOUT ROWID;
INSERT INTO weir_sums (span, key, origin, n, doubt, upto)
    SELECT CAST(strftime('%Y%m', day * 86400, 'unixepoch') AS INTEGER), key, origin, min(sum(n), 72057594037927936), min(sum(doubt), 72057594037927936), max(upto)
    FROM weir_days GROUP BY 1, key, origin;
INSERT INTO weir_sums (span, key, origin, n, doubt, upto)
    SELECT span / 100, key, origin, min(sum(n), 72057594037927936), min(sum(doubt), 72057594037927936), max(upto)
    FROM weir_sums GROUP BY 1, key, origin;
CREATE INDEX weir_sums_by_n ON weir_sums (span, origin, n) WHERE n >= 100;
-- Who wrote without these sums has its lease no longer.
UPDATE weir_journals SET token = token + 1;

-- +goose Down
DROP TABLE weir_sums;
