-- The shop that the scripts read. What it holds is what keys and marks trip over: ties in
-- updated_at, a reference that is missing, ids that the vendor gives out again every day, and
-- two pairs of texts that are one text when they are joined by a colon.
CREATE TABLE orders (
    id int PRIMARY KEY,
    d date NOT NULL,
    at timestamptz NOT NULL,
    updated_at timestamp NOT NULL,
    vendor_id int NOT NULL,
    reference text,
    customer text NOT NULL,
    store text NOT NULL,
    sku text NOT NULL,
    amount numeric(9, 2) NOT NULL
);

INSERT INTO orders
SELECT
    extract(day FROM day)::int * 100 + n,
    day::date,
    day + n * interval '3 hours' + interval '30 minutes',
    day + (n / 2) * interval '1 hour',
    n,
    CASE WHEN n <> 4 THEN to_char(day, 'MMDD-') || n END,
    (ARRAY['ann', 'bob', 'cy'])[n % 3 + 1],
    CASE WHEN n = 1 AND extract(day FROM day) = 24 THEN 'a:b' ELSE 'a' END,
    CASE WHEN n <> 1 THEN 'sku-' || extract(day FROM day) || n
         WHEN extract(day FROM day) = 24 THEN 'c' ELSE 'b:c' END,
    n * 1.25 + 1
FROM generate_series(timestamp '2026-04-23', '2026-04-26', '1 day') AS day,
     generate_series(1, 6) AS n;

-- The last ten days, as the server's clock has them.
CREATE TABLE visited AS
SELECT n AS id, (now() - n * interval '1 day')::date AS d FROM generate_series(0, 9) AS n;
