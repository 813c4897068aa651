-- +goose Up
CREATE TABLE weir_ids (
    `key`  VARBINARY(1028) NOT NULL,
    begins BIGINT NOT NULL,
    wide   INT NOT NULL,
    origin INT NOT NULL,
    ids    BLOB NOT NULL,
    PRIMARY KEY (`key`, begins, wide, origin)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE INDEX weir_ids_by_time ON weir_ids (begins);
-- What was read without ids ends now.
INSERT INTO weir_ids (`key`, begins, wide, origin, ids)
    SELECT '', UNIX_TIMESTAMP(), 0, origin, '' FROM weir_journals WHERE position IS NOT NULL;
-- Who wrote without ids has its lease no longer.
UPDATE weir_journals SET token = token + 1;

-- +goose Down
DROP TABLE weir_ids;
