-- +goose Up
CREATE TABLE weir_ids (
    key    TEXT COLLATE "C" NOT NULL,
    begins BIGINT NOT NULL,
    wide   INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    ids    BYTEA NOT NULL,
    PRIMARY KEY (key, begins, wide, origin)
);
CREATE INDEX weir_ids_by_time ON weir_ids (begins);
-- What was read without ids ends now.
INSERT INTO weir_ids (key, begins, wide, origin, ids)
    SELECT '', CAST(extract(epoch from clock_timestamp()) AS BIGINT), 0, origin, '' FROM weir_journals WHERE position IS NOT NULL;
-- Who wrote without ids has its lease no longer.
UPDATE weir_journals SET token = token + 1;

-- +goose Down
DROP TABLE weir_ids;
