//go:build long

package duckdb

import (
	"context"
	"path/filepath"
	"testing"

	"pillion.dev/archive"
)

// TestLongQueryAnswersAsTheServerWould: a query in a process returns what it returns on the
// tables themselves: for every type, and whatever DuckDB pushes into the scans.
func TestLongQueryAnswersAsTheServerWould(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	store(t, a, lineBatch(t, 0, 0, 5000), batch(t, "a", everything, 0, 0, 3000))
	for _, sql := range []string{
		"FROM everything ORDER BY time, agent", "SELECT * FROM lines LIMIT 2500", "SELECT count(*) FROM lines", "SELECT count(*), count(v), 1 FROM lines, (SELECT count(*) FROM lines)",
		"SELECT NULL, true, 1::TINYINT, 2::USMALLINT, 3::HUGEINT, 1.5::FLOAT, 'x'::BLOB, DATE '2020-01-01', TIME '01:02:03', TIMESTAMP '2020-01-01 01:02:03', TIMESTAMPTZ '2020-01-01 01:02:03+00', INTERVAL 3 DAY, 1.25::DECIMAL(18,3)",
		"SELECT [1, NULL, 3], []::INT[], NULL::INT[], [[1], [2, 3]], [1, 2, 3]::INT[3], {'a': 1, 'b': ['x', NULL]}, MAP {'k': [1], 'l': NULL}, [{'a': [v]}] FROM lines WHERE v < 100 LIMIT 100",
		"SELECT list(v), list(line), list({'l': line, 'v': v}) FROM (SELECT * FROM lines ORDER BY time) GROUP BY w ORDER BY w",
		"SELECT sum(v), avg(v), quantile_cont(v, 0.5) FROM lines WHERE time >= '2023-11-14 22:13:21.5' AND time < TIMESTAMP '2023-11-14 22:13:22'",
		"SELECT v FROM lines WHERE time = '2023-11-14 22:13:21.5' OR v = 5 ORDER BY ALL",
		"SELECT * FROM (SELECT agent AS line, v FROM lines) WHERE line = 'x' ORDER BY ALL",
		"SELECT * FROM (SELECT agent FROM lines UNION ALL SELECT line FROM lines) WHERE agent = 'b' ORDER BY ALL",
		"SELECT count(*) FROM lines a JOIN lines b USING (time) WHERE a.line = 'b' AND b.v > 100 AND a.time < '2023-11-14 22:13:22'",
		"SELECT (SELECT count(*) FROM lines WHERE line = 'b'), (SELECT count(*) FROM lines WHERE line = 'c' AND v > 0), (SELECT max(v) FROM lines WHERE v <= 3)",
		"SELECT count(*) FROM lines WHERE line > 'a line' AND line <= 'b' AND w >= 2 AND w <= 3",
		"SELECT count(*) FROM lines l LEFT JOIN lines r ON l.time = r.time AND r.line = 'b' WHERE r.v IS NULL",
		"WITH RECURSIVE n(i) AS (SELECT min(v) FROM lines UNION ALL SELECT (SELECT min(v) FROM lines WHERE v > i) FROM n WHERE i < -280) SELECT * FROM n ORDER BY i",
		"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + (SELECT count(*) // 5000 FROM lines) FROM n WHERE i < 300) SELECT max(i), count(*) FROM n",
		"SELECT v, row_number() OVER (PARTITION BY line ORDER BY time) FROM lines WHERE w = 4 ORDER BY ALL LIMIT 50",
		"SELECT * FROM lines WHERE line IN (SELECT line FROM lines WHERE v = 5) AND time BETWEEN '2023-11-14 22:13:21' AND '2023-11-14 22:13:21.1' ORDER BY time",
		"SELECT repeat_text FROM (SELECT list_reduce(list(line), (x, y) -> x || y) AS repeat_text FROM lines)",
	} {
		var want, got []string
		err := a.reader(t.Context(), 0, func(ctx context.Context, c *connection) error { return c.query(ctx, sql, nil, rowsAsJSON(t, &want)) })
		if err != nil {
			t.Errorf("%s: in the server: %v", sql, err)
			continue
		}
		if err := a.Query(t.Context(), sql, nil, archive.Limits{}, rowsAsJSON(t, &got)); err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if len(got) != len(want) || len(got) == 0 {
			t.Errorf("%s: %d rows, want %d", sql, len(got), len(want))
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: row %d\n%.300s\nwant\n%.300s", sql, i, got[i], want[i])
				break
			}
		}
	}
	for sql, want := range map[string]string{ // as text
		"SELECT 'b'::ENUM('a', 'b') AS e":       `{"e":"b"}`,
		"SELECT union_value(n := 5) AS u":       `{"u":"[0,5]"}`,
		"SELECT uuid() IS NOT NULL AS u":        `{"u":true}`,
		"SELECT '101'::BIT::VARCHAR AS b":       `{"b":"101"}`,
		"SELECT 'x' AS \"a b\", 'y' AS \"a b\"": ``,
	} {
		var got []string
		if err := a.Query(t.Context(), sql, nil, archive.Limits{}, rowsAsJSON(t, &got)); err != nil || len(got) != 1 || want != "" && got[0] != want {
			t.Errorf("%s: %q, %v", sql, got, err)
		}
	}
}
