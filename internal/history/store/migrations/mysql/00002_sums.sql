-- +goose Up
CREATE TABLE weir_sums (
    span   INT NOT NULL,
    `key`  VARBINARY(1028) NOT NULL,
    origin INT NOT NULL,
    n      BIGINT NOT NULL,
    doubt  BIGINT NOT NULL,
    upto   BIGINT NOT NULL,
    PRIMARY KEY (span, `key`, origin)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
INSERT INTO weir_sums (span, `key`, origin, n, doubt, upto)
    SELECT CAST(DATE_FORMAT(DATE_ADD(DATE '1970-01-01', INTERVAL day DAY), '%Y%m') AS SIGNED), `key`, origin, LEAST(sum(n), 72057594037927936), LEAST(sum(doubt), 72057594037927936), max(upto)
    FROM weir_days GROUP BY 1, `key`, origin;
INSERT INTO weir_sums (span, `key`, origin, n, doubt, upto)
    SELECT span DIV 100, `key`, origin, LEAST(sum(n), 72057594037927936), LEAST(sum(doubt), 72057594037927936), max(upto)
    FROM weir_sums GROUP BY 1, `key`, origin;
CREATE INDEX weir_sums_by_n ON weir_sums (span, origin, n);
-- Who wrote without these sums has its lease no longer.
UPDATE weir_journals SET token = token + 1;

-- +goose Down
DROP TABLE weir_sums;
